from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.study.planted_study import plant
from typer.testing import CliRunner

from snellen.cli.study import app
from snellen.errors import SnellenError
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.web.application import serve

SNELLEN = "from snellen.cli.main import main; main()"


@pytest.mark.slow
def test_serving_tells_the_links_answers_and_stops_in_peace(tmp_path: Path) -> None:
    study, old = plant(tmp_path / "s")
    command = [sys.executable, "-c", SNELLEN, "study", "serve", str(study.folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline().strip() for _ in range(3)]
            assert lines[0] == "study: Planted (open; 0 finished, 0 begun)"
            link = lines[1].removeprefix("participants: ")
            assert lines[2].startswith(f"experimenter: {link}admin (a lost password: `snellen study password ")
            with urllib.request.urlopen(f"{link}health", timeout=10) as response:
                assert response.read() == b"ok, open\n"
                assert "server" not in response.headers
            server.send_signal(signal.SIGINT)
            rest, errors = server.communicate(timeout=20)
        finally:
            server.kill()
    assert rest == "stopped; every answer is stored\n"
    assert errors == ""
    assert server.returncode == 0
    told_once = CliRunner().invoke(app, ["password", str(study.folder)])
    again = Study.read(study.folder)
    assert again.admits(told_once.stdout.removeprefix("password: ").strip())
    assert not again.admits(old)


def test_a_port_that_is_in_use_is_one_sentence(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s")
    store = AnswerStore.open(study)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SnellenError, match=f"port {port} of 127.0.0.1 is in use; choose another with --port"):
            serve(study, store, port=port)
    with pytest.raises(SnellenError, match="cannot be opened"):
        serve(study, store, host="no such host", port=0)
    store.close()
