"""Generated text inside a page that people write: what stands between two marks is replaced, the rest stays."""

from __future__ import annotations

from pathlib import Path

from swr.bench.files import replacing
from swr.errors import SWRError


class MarksError(SWRError):
    """An existing file does not say where the report goes."""


def put_between(path: Path, begin: str, end: str, text: str) -> None:
    """Write a new file, or replace what stands between the marks of an existing one, atomically."""
    before, after = outside(path, begin, end)
    with replacing(path, mode="w") as [file]:
        file.write(f"{before}{begin}\n\n{text}\n{end}{after}")


def outside(path: Path, begin: str, end: str) -> tuple[str, str]:
    """What stands before and after the marks of a file; for one that does not exist, what completes the text to a file."""
    if not path.exists():
        return "", "\n"
    try:
        before, first, rest = path.read_text(encoding="utf-8").partition(begin)
    except UnicodeDecodeError as error:
        raise MarksError(f"{path} exists and is not text: name another file") from error
    _, last, after = rest.partition(end)
    if not (first and last):
        raise MarksError(f"{path} exists and does not say where the report goes: add the lines {begin} and {end} to it")
    return before, after
