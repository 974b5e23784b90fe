"""How fast the command line starts: what does not compute imports nothing large."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

LARGE = ("torch", "pandas", "scipy", "skimage", "pyarrow", "numpy")
"""Packages that take from a tenth of a second to seconds to import."""

CODE = f"""
import json, os, sys
from snellen.cli.main import main
for line in sys.stdin:
    request = json.loads(line)
    reading, writing = os.pipe()
    if not os.fork():
        for number in (1, 2):
            os.dup2(writing, number)
        os.environ |= request["env"]
        sys.argv = ["snellen", *request["words"]]
        try:
            main()
        except SystemExit:
            pass
        print("imported:", *sorted({set(LARGE) | {"rich.console"}} & set(sys.modules)), flush=True)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as output:
        print(json.dumps(output.read()), flush=True)
    os.wait()
"""


@pytest.fixture(scope="module")
def command() -> Iterator[Callable[..., tuple[str, list[str]]]]:
    """Runs a command in a fork of a process that has imported the command line alone.

    Returns what it printed, and which large packages, and whether rich, it had imported at its end.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    server = subprocess.Popen([sys.executable, "-c", CODE], **pipes, text=True)
    assert server.stdin is not None
    assert server.stdout is not None

    def run(*words: str, env: dict[str, str] | None = None) -> tuple[str, list[str]]:
        server.stdin.write(json.dumps({"words": words, "env": env or {}}) + "\n")
        server.stdin.flush()
        text = json.loads(server.stdout.readline())
        assert "imported:" in text, text
        printed, _, imported = text.rpartition("imported:")
        return printed, imported.split()

    yield run
    server.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ["--help"], ["run", "--help"], ["textbox", "--help"], ["study", "simulate", "--help"], ["--version"], ["lst"],
        ["run", "--metods", "rise"], ["study", "serv"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_help_and_mistyped_words_import_nothing_large(command, words):
    printed, imported = command(*words)
    assert printed
    assert imported == []


@pytest.mark.parametrize("what", ["methods", "metrics", "conditions", "models", "metric"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_lists_import_nothing_large(command, what, form):
    printed, imported = command("list", what, *form)
    assert set(imported) <= {"rich.console"}
    if what == "metric":
        assert "did you mean 'metrics'?" in printed
    elif form:
        assert imported == []
        assert set(json.loads(printed)) == {"schema", what}


def test_importing_snellen_imports_nothing_large():
    code = f"import sys, snellen; print(sorted({set(LARGE) | {'rich', 'typer', 'pydantic'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_the_package_is_the_command_too():
    done = subprocess.run([sys.executable, "-m", "snellen", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("snellen ")
    done = subprocess.run([sys.executable, "-m", "snellen", "lst"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: snellen [OPTIONS]")


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("snellen re", {"resume", "report", "reproduce", "recommend"}),
        ("snellen run --metho", {"--methods"}),
        ("snellen study si", {"simulate"}),
        ("snellen textbox run --vari", {"--variation"}),
        ("snellen list m", {"methods", "metrics", "models"}),
        ("snellen new m", {"method", "metric"}),
        ("snellen card grad-cam", {"grad-cam", "grad-cam++"}),
        ("snellen run --methods rise,lime", {"rise,lime", "rise,lime-lasso"}),
        ("snellen suite --metrics del", {"deletion"}),
    ],
)
def test_bash_completes_commands_options_and_names(command, line, offers):
    words = line.split(" ")
    protocol = {"_SNELLEN_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    printed, imported = command(env=protocol)
    assert set(printed.split()) == offers
    assert imported == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_calls_this_program(command, shell):
    printed, _ = command("--show-completion", shell, env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert f"_SNELLEN_COMPLETE=complete_{shell}" in printed


def seconds(command: Callable[[], object]) -> float:
    """Processor seconds of child processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.parametrize(("words", "most"), [(["--help"], 0.6), (["run", "--help"], 0.6), (["list", "methods"], 1.0)])
def test_processor_time_is_bounded(words, most):
    """About three times what a quiet machine needs; importing torch alone exceeds it."""
    times = [
        seconds(lambda: subprocess.run([sys.executable, "-m", "snellen", *words], capture_output=True, check=True))
        for _ in range(5)
    ]
    assert statistics.median(times) < most, times


@pytest.mark.slow
def test_workers_import_no_statistics():
    """Scipy's take half a second, and so would every worker."""
    code = "import sys, snellen.runs.unit; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
