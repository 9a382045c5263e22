"""A page that is kept up to date: a small local server, which writes the page again when the store has changed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from swr.bench.report import page as pages
from swr.bench.report.results import Results, load, opened
from swr.bench.store import Store, StoreError

HOST = "127.0.0.1"
EVERY = 2.0
"""seconds between two checks of the store"""
REST = 5
"""the least pause, in multiples of the time that writing the page took, so that a large store is not read all the time"""


def serve(store: Path, page: Path, port: int = 0, *, say: Callable[[str], None] = print) -> None:
    """Keep the page up to date until Ctrl-C; in the background, where the parent has SIGINT ignored, until SIGTERM.

    Args:
        store: May be created later, or be locked for a moment; the page says so meanwhile.
        page: The file; it is written too, without the script that reloads it.
        port: 0 takes a free one.
        say: Receives the address.
    """
    watcher = Watcher(store, page)
    with Server((HOST, port), Handler) as server:
        server.watcher = watcher
        watcher.update()
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            with suppress(KeyboardInterrupt):
                ends = "Ctrl-C" if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN else f"kill {os.getpid()}"
                say(f"{page} is kept up to date at http://{HOST}:{server.server_port}/ ({ends} ends it)")
                while True:
                    time.sleep(max(EVERY, REST * watcher.cost))
                    watcher.update()
        finally:
            server.shutdown()
            watcher.close()


class Watcher:
    """The newest page of a store: its version and its text."""

    def __init__(self, store: Path, page: Path) -> None:
        self.path, self.page = store, page
        self.current = ("", "")
        """version and text; replaced together, since the server's threads read them"""
        self.cost = 0.0
        """seconds that the newest page took"""
        self._contents = pages.contents(Results([], {}))
        self._store: Store | None = None
        self._held = ExitStack()
        self._seen: object = None
        self._count = 0

    def update(self) -> bool:
        """Write the page again if the store, or the problem with it, has changed.

        Returns:
            Whether it has.
        """
        begin = time.monotonic()
        problem = ""
        try:
            seen = self._state()
            if seen != self._seen:
                self._contents = pages.contents(load(self._opened()))
        except StoreError as error:
            self.close()
            seen = problem = f"{error}. This page tries again every few seconds."
        if seen == self._seen:
            return False
        self._count += 1
        version = f"{begin:.3f}-{self._count}"
        self.current = (version, pages.fill(self._contents, version=version, problem=problem))
        if not problem:
            pages.save(pages.fill(self._contents), self.page)
        self._seen = seen
        self.cost = time.monotonic() - begin
        return True

    def close(self) -> None:
        """Close the store."""
        self._held.close()
        self._store = None

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._held.enter_context(opened(self.path, wait=1.0))
        return self._store

    def _state(self) -> object:
        """A value that changes when another process writes to the store, or replaces its file."""
        try:
            found = self.path.stat()
        except OSError:
            self.close()
            found = None
        place = found and (found.st_dev, found.st_ino, self._copied() and found.st_mtime_ns)
        if isinstance(self._seen, tuple) and self._seen[0] != place:
            self.close()
        with self._opened().reading() as db:
            return place, db.execute("PRAGMA data_version").fetchone()

    def _copied(self) -> bool:
        """Whether a copy is read: then only the time of the file tells that it has changed."""
        return self._store is not None and self._store.path != self.path


class Server(ThreadingHTTPServer):
    """Ends with the program, also while a browser holds a connection."""

    daemon_threads = True
    watcher: Watcher


class Handler(BaseHTTPRequestHandler):
    """The page, and its version."""

    server: Server

    def do_GET(self) -> None:
        """Answer requests to our own address only, not those of another site whose name was made to point here."""
        own = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        version, text = self.server.watcher.current
        if self.headers.get("Host") not in own:
            self._answer(403, "text/plain", "this server answers requests to its own address only")
        elif self.path == "/":
            self._answer(200, "text/html", text)
        elif self.path == "/version":
            self._answer(200, "text/plain", version)
        else:
            self._answer(404, "text/plain", "there is the page / and nothing else")

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):  # the browser closed the connection
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the terminal belongs to the runs."""
