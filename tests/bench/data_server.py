"""An HTTP server on this machine that misbehaves on demand."""

import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Server:
    """Serves ``files`` (name -> bytes) and notes the Range header of every request.

    drops: for each of the first requests, how many bytes to send before the connection is cut.
    ranges: False ignores Range and sends everything.
    chunked: True leaves out Content-Length.
    status: answer every request with this error.
    shift: send a range that starts so many bytes too late.
    slow: seconds to wait after every 16 KB.
    """

    def __init__(self, files, *, drops=(), ranges=True, chunked=False, status=None, shift=0, slow=0.0):
        self.files, self.drops, self.ranges = files, list(drops), ranges
        self.chunked, self.status, self.shift, self.slow = chunked, status, shift, slow
        self.requests = []

    def __enter__(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = False  # so that closing waits for the last answer
        self.thread = Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        self.base = f"http://127.0.0.1:{self.http.server_port}/files/"
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, handler):
        name = handler.path.rpartition("/")[2]
        asked = handler.headers.get("Range")
        self.requests.append((name, asked))
        if self.status or name not in self.files:
            handler.send_error(self.status or 404)
            return
        data, start = self.files[name], 0
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-")) + self.shift
            if start >= len(data):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            handler.send_response(200)
        if not self.chunked:
            handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        end = start + self.drops.pop(0) if self.drops else len(data)
        handler.close_connection = True
        with suppress(ConnectionError):  # the other side may be killed
            for at in range(start, end, 1 << 14):
                handler.wfile.write(data[at : min(at + (1 << 14), end)])
                time.sleep(self.slow)
