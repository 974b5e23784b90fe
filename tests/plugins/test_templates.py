"""`snellen new`: the files that it writes work as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import snellen
from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.plugins.checks import CheckReport
from snellen.plugins.registry import METHODS, METRICS
from snellen.plugins.templates import NewPlugin
from snellen.runs import Run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(METHODS), set(METRICS)
    yield tmp_path
    for registry, names in zip((METHODS, METRICS), before, strict=True):
        for name in set(registry) - names:
            del registry._classes[name]


@pytest.mark.parametrize("kind", ["method", "metric"])
def test_what_it_writes_breaks_no_rule(here, kind):
    done = CliRunner().invoke(app, ["new", kind, "plain-start"])
    assert done.exit_code == 0
    assert "written: plain_start.py and test_plain_start.py" in done.output
    assert f"--{kind}s plain_start.py:PlainStart" in done.output
    report = CheckReport.of("plain_start.py:PlainStart")
    assert (report.plugin, report.kind, report.is_plain, report.failures) == ("plain-start", kind, False, ())


@pytest.mark.parametrize("kind", ["method", "metric"])
def test_what_it_writes_is_as_ruff_wants_it(here, kind):
    """With the settings that ruff has where an author has none."""
    NewPlugin(kind=kind, name="a-name-of-usual-length").write(here)
    for words in (["check", "--select", "E,F,I,W,UP,B"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--isolated", "--no-cache", str(here)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_it_never_writes_over_a_file(here):
    plugin = NewPlugin(kind="method", name="plain-start")
    (here / "test_plain_start.py").write_text("mine")
    with pytest.raises(SnellenError, match=r"'test_plain_start.py' exists and is not overwritten; choose another name"):
        plugin.write(Path())
    assert os.listdir(here) == ["test_plain_start.py"]
    assert (here / "test_plain_start.py").read_text() == "mine"
    paths = plugin.write(Path("new/folder"))
    assert all(path.exists() for path in paths)
    (here / "file").touch()
    with pytest.raises(SnellenError, match="'file' cannot be written to"):
        plugin.write(Path("file"))


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("methods", "a", "writes a method or a metric, not a 'methods'; did you mean 'method'?"),
        ("method", "PlainStart2", "must be lower-case words joined by hyphens, such as 'plain-start2'"),
        ("method", "../up", "must be lower-case words joined by hyphens, such as 'up'"),
        ("method", "2d", "must be lower-case words joined by hyphens, such as 'd'"),
        ("method", "", "must be lower-case words joined by hyphens, such as bright-edges"),
        ("method", "a\n", "must be lower-case words joined by hyphens"),
        ("method", "gradient", "is taken by a method; choose another name"),
        ("method", "deletion", "is taken by a metric; choose another name"),
        ("metric", "torch", "would give the file torch.py, a name that Python uses"),
        ("metric", "lambda", "would give the file lambda.py, a name that Python uses"),
        ("metric", "json", "would give the file json.py, a name that Python uses"),
    ],
)
def test_names_that_cannot_be_used(here, kind, name, sentence):
    with pytest.raises(SnellenError) as caught:
        NewPlugin(kind=kind, name=name)
    assert sentence in str(caught.value)
    assert os.listdir(here) == []


@pytest.mark.slow
def test_the_tests_that_it_writes_pass_and_the_command_runs_both(here):
    """In processes of their own, as an author would."""
    path = os.pathsep.join([str(Path(snellen.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *words], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    NewPlugin(kind="method", name="own-slopes").write(here)
    NewPlugin(kind="metric", name="own-share").write(here)
    assert " passed" in run("pytest", "-q", "-p", "no:cacheprovider")
    own = ["--methods", "own_slopes.py:OwnSlopes(scale=2),random", "--metrics", "own_share.py:OwnShare"]
    printed = run("snellen", "run", "--model", "digits", "--images", "zoo:digits", *own, "--out", "run")
    assert "own-slopes(scale=2.0)" in printed
    scores = Run("run").scores()
    assert set(scores["metric"]) == {"own-share"}
    assert set(scores["method"]) == {"own-slopes(scale=2.0)", "random"}
    assert (here / "run" / "report.html").exists()
