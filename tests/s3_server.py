"""A server of the S3 protocol on loopback, in this process: moto's, with faults that tests may ask for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_api._internal.managed_state_model import ManagedState  # noqa: F401  # imported before its threads start
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class S3Server:
    """The server. A request is answered one at a time, because moto does not check a condition and write in one step."""

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request."""
        self.fault: Callable[[dict[str, Any]], tuple[str, bytes] | None] = lambda environ: None
        """Called with each request; what it returns, a status and a body, is answered instead."""
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._turn:
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            fault = self.fault(environ)
            if fault is None:
                return list(self._application(environ, start_response))
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = b"" if environ["REQUEST_METHOD"] == "HEAD" else fault[1]
        start_response(fault[0], [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    @contextmanager
    def failing(self, fault: Callable[[dict[str, Any]], tuple[str, bytes] | None]) -> Iterator[None]:
        """Answers with faults until the end of the body."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = lambda environ: None

    def stop(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def error(status: str, code: str) -> tuple[str, bytes]:
    """The answer of S3 to a request that it does not fulfil."""
    return status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
