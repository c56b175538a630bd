"""A small HTTP server to be scraped: what it answers is a function of the test's, and each answer is kept."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Scraped:
    """Answers GETs with (status, headers, body) of `answer(path, headers)`; None closes the connection."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.seen: list[dict[str, str]] = []
        self.bodies: list[bytes] = []

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        self.seen.append({key.lower(): value for key, value in request.headers.items()})
        length = int(request.headers.get("Content-Length", 0))
        found = self.answer(request.path, self.seen[-1] | {"body": request.rfile.read(length).decode()})
        if found is None:
            request.close_connection = True
            return
        status, headers, body = found
        self.bodies.append(body)
        request.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body)


@contextlib.contextmanager
def served(answer, tls=None):
    """Yield (host:port, Scraped); `tls` is a server's SSL context."""
    scraped = Scraped(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            scraped.handle(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            pass  # clients that leave early are part of the tests

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", scraped
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
