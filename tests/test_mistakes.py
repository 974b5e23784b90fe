"""What the command line says of mistakes, and of errors that nobody foresaw."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

import snellen
from snellen import cli
from snellen.errors import shown

FAILURES = {"runtime": RuntimeError, "memory": MemoryError, "pipe": BrokenPipeError}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> int:
        return len(self.err.strip().splitlines())


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs the command line in this process, with one more command that fails in a way that nobody foresaw."""
    extra = typer.Typer()

    @extra.command()
    def boom(kind: str) -> None:
        def deep(depth: int) -> int:
            return deep(depth + 1) + 1

        if kind == "recursion":
            deep(0)
        raise FAILURES[kind]("broken \udcff [bold]" + "x" * 999)

    monkeypatch.setattr(cli.app, "registered_commands", [*cli.app.registered_commands, *extra.registered_commands])

    def calling(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["snellen", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Ended(ended.value.code, *capsys.readouterr())

    return calling


@pytest.mark.parametrize("kind", ["runtime", "memory", "recursion"])
def test_an_unforeseen_error_is_one_sentence_with_the_path_of_a_private_log(call, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = call("boom", kind)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert done.sentences == 1
    log = Path(re.search(r"traceback is in '([^']+)'", done.err)[1])
    assert log.parent == tmp_path
    assert "Traceback" in log.read_text()
    assert "boom" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_does_not_hide_the_error(call, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at all")
    done = call("boom", "runtime")
    assert done.code == 1
    assert "RuntimeError: broken" in done.err
    assert "could not be written" in done.err
    assert done.sentences == 1


def test_who_stops_reading_the_output_is_told_nothing(call):
    done = call("boom", "pipe")
    assert (done.code, done.err) == (1, "")


def test_the_version_is_told_and_the_package_can_be_run():
    done = subprocess.run([sys.executable, "-m", "snellen", "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"snellen {snellen.__version__}\n", "")


def test_an_unknown_option_is_a_usage_error(call):
    done = call("--nonsense")
    assert done.code == 2
    assert "No such option: --nonsense" in done.err


def test_a_name_that_is_not_utf_8_is_refused(call):
    done = call("report", "run\udcff")
    assert done.code == 2
    assert "is not UTF-8" in done.err
    assert done.sentences == 1


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


VALUES = {
    "no repr": Unprintable(),
    "long": "x" * 10_000,
    "digits": 10**5000,
    "deep": [[[[[[[]]]]]]] * 50,
    "wide": {str(key): key for key in range(99)},
    "no text": "\udcff\0\n\n",
    "bytes": b"\0" * 999,
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_in_a_sentence_is_short_and_on_one_line(name):
    text = shown(VALUES[name])
    assert 0 < len(text) <= 80
    assert text.isprintable()
    text.encode()
