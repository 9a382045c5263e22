"""Downloading an official file: resumed, checked by its hash, atomic, with a progress bar.

pooch checks the hash and moves the finished file to its place. :class:`Resuming` fetches the bytes for it into a hidden
``.part`` file, which stays after an interruption; the next attempt continues at its end.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch
import requests
import urllib3

from swr.bench.data.dataset import DataError
from swr.bench.data.progress_bar import bar
from swr.bench.data.sources import Archive, Source
from swr.bench.files import locked

TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two pieces
ATTEMPTS = 100  # connections for one file, as long as there is progress
PATIENCE = 3  # connections in a row without progress, after one with

log = logging.getLogger("swr")


def fetch(source: Source, archive: Archive, folder: Path, *, base: str | None = None, pause: float = 1.0) -> Path:
    """Download one file of a dataset below a data folder, unless it is there; returns its path.

    A file of that name that is not the published one is never overwritten.

    Args:
        base: An address to use instead of the source's own.
        pause: Seconds to wait before an interrupted download continues.
    """
    target = folder / archive.path
    try:
        with locked(target.with_name(f".{archive.name}.lock")), _quiet_pooch():
            if target.exists():
                check_hash(target, archive)
                return target
            failures = []
            for address in (base,) if base is not None else source.bases:
                url = f"{address.rstrip('/')}/{archive.name}"
                log.info("downloading %s (%.1f MB)", url, archive.size / 1e6)
                try:
                    _retrieve(url, archive, target, pause)
                    return target
                except DataError as error:
                    failures.append(f"{url}: {error}")
    except OSError as error:
        raise DataError(f"{target} cannot be written ({error}): make room or name another data folder") from error
    raise DataError(
        f"{archive.name} could not be downloaded ({'; '.join(failures)}): "
        f"check the network and try again, or put the file into {target.parent}"
    )


def check_hash(path: Path, archive: Archive) -> None:
    """Refuse a file that is not the published archive."""
    algorithm, _, published = archive.digest.partition(":")
    found = pooch.file_hash(str(path), alg=algorithm)
    if found != published:
        raise DataError(
            f"{path} is not the published archive, its {algorithm} is {found} and should be {published}: "
            "move it away, or name another data folder, to download the published one"
        )


class Resuming:
    """A downloader for pooch that continues where the last attempt stopped.

    Args:
        part: The file that collects the bytes and stays when a download is interrupted.
        size: Bytes of the whole file; a server that offers another number has another file.
        pause: Seconds between two connections.
    """

    def __init__(self, part: Path, size: int, pause: float = 1.0) -> None:
        self.part, self.size, self.pause = part, size, pause
        self.resumed = False
        """whether bytes of an earlier attempt are in the file"""

    def __call__(self, url: str, output_file: str, pooch: object = None, check_only: bool = False) -> None:
        """Download ``url`` to ``output_file``; the other arguments are pooch's."""
        best, started, fruitless = self._have(), False, 0
        with bar(f"downloading {url.rpartition('/')[2]}", self.size, unit="bytes") as show:
            for _ in range(ATTEMPTS):
                try:
                    self._attempt(url, show)
                    break
                except (requests.HTTPError, WrongFile):
                    raise  # the server answered; trying again gives the same answer
                except requests.RequestException:
                    fruitless = 0 if self._have() > best else fruitless + 1
                    best, started = max(best, self._have()), started or fruitless == 0
                    if not started or fruitless >= PATIENCE:
                        raise
                    time.sleep(self.pause)
            else:
                raise BrokenOff(f"broken off {ATTEMPTS} times, after {self._have()} of {self.size} bytes")
        self.part.replace(output_file)

    def _attempt(self, url: str, show: Callable[[int], None]) -> None:
        if self._have() > self.size:
            self.part.unlink()
        have = self._have()
        if have == self.size:
            self.resumed = True
            return
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if response.status_code == 416:  # the server's file ends before ours
                raise WrongFile(f"the server has fewer than {have} bytes of it, {self.size} were published")
            response.raise_for_status()
            resumed = response.status_code == 206
            if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise WrongFile("the server sent another part of it than it was asked for")
            start = have if resumed else 0  # a server that ignores Range sends everything again
            offered = response.headers.get("Content-Length")
            if offered and offered.isdigit() and start + int(offered) != self.size:
                raise WrongFile(f"the server has {start + int(offered)} bytes of it, {self.size} were published")
            self.resumed = resumed and have > 0
            self._receive(response, start, show)

    def _receive(self, response: requests.Response, have: int, show: Callable[[int], None]) -> None:
        with self.part.open("ab" if have else "wb") as file:
            try:
                for piece in response.raw.stream(1 << 16, decode_content=False):
                    have += len(piece)
                    if have > self.size:
                        raise WrongFile(f"the server sends more than the {self.size} bytes that were published")
                    file.write(piece)
                    show(have)
            except urllib3.exceptions.HTTPError as error:
                raise BrokenOff(f"broken off after {have} of {self.size} bytes") from error
            file.flush()
            os.fsync(file.fileno())
        if have < self.size:
            raise BrokenOff(f"broken off after {have} of {self.size} bytes")

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0


class WrongFile(requests.RequestException):
    """The server offers something else than the published file."""


class BrokenOff(requests.ConnectionError):
    """The connection ended before the file did."""


def _retrieve(url: str, archive: Archive, target: Path, pause: float) -> None:
    """Download through pooch, or raise a DataError with the reason.

    A file that was assembled from several attempts may be wrong because of that: it is fetched from the start, once.
    """
    part, reason = target.with_name(f".{archive.name}.part"), ""
    for _ in range(2):
        earlier, downloader = part.exists(), Resuming(part, archive.size, pause)
        try:
            pooch.retrieve(url, archive.digest, archive.name, target.parent, downloader=downloader)
            return
        except WrongFile as error:
            part.unlink(missing_ok=True)
            reason = str(error)
            if not earlier:
                break
        except requests.RequestException as error:
            raise DataError(_reason(error)) from error
        except ValueError:  # the hash; pooch has removed the file
            reason = f"what came is not the published file, whose hash is {archive.digest}"
            if not downloader.resumed:
                break
    raise DataError(reason)


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, BrokenOff):
        return str(error)
    return "no answer in time" if isinstance(error, requests.Timeout) else "no connection"


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
