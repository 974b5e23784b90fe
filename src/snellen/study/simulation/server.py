"""`snellen study serve` as a process of its own, which can be killed and started again at the same port."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from snellen.errors import SnellenError

_START_TIMEOUT = 120.0
"""Seconds until the server must answer; long, for busy machines."""


@dataclass(eq=False)
class Server:
    """A server for a study folder."""

    folder: Path
    database: str | None
    """Its address; None for the file in the folder."""
    port: int
    log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    """What the server prints."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def link(self) -> str:
        """The address of the study."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        words = ["study", "serve", str(self.folder), "--port", str(self.port)]
        words += ["--database", self.database] if self.database else []
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from snellen.cli.main import main; main()", *words], stdout=self.log, stderr=self.log
        )
        end = time.monotonic() + _START_TIMEOUT
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SnellenError(f"the study could not be served: {self.output() or 'the server does not answer'}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Ends the server without warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server if it runs."""
        if self.process is not None and self.process.poll() is None:
            self._end(signal.SIGTERM)

    def output(self) -> str:
        """What the server printed, in one line."""
        self.log.seek(0)
        return " ".join(self.log.read().decode(errors="replace").split())

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.link}/health", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@contextmanager
def serving(folder: Path, database: str | None = None) -> Iterator[Server]:
    """A server at a free port, which ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(folder, database, port)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.log.close()
