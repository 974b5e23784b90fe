"""Whatever ends a run, by signal, by death or by sys.exit: one sentence, a code that is not 0, no orphans, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from PIL import Image
from tests.runs.own_plugins import own_method, own_metric
from tests.runs.subject import Dying, Exiting, finished_units, load, write_images

from snellen.cli import main as command_line
from snellen.cli.signals import stopping_on_signals
from snellen.errors import SnellenError
from snellen.images import from_folder
from snellen.images.geometry import AS_IS
from snellen.runs import Options, Run, evaluate
from snellen.runs.job import UnfinishedError

HERE = Path(__file__).parents[1] / "runs"
MAIN = "from snellen.cli.main import main; main()"


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), count=12)


@pytest.fixture(scope="module")
def one_white(tmp_path_factory) -> Path:
    """Two pictures, of which the second is the one that ends models of this file."""
    folder = write_images(tmp_path_factory.mktemp("white"), count=2)
    Image.new("RGB", (32, 32), "white").save(folder / "001.png")
    return folder


@pytest.fixture(autouse=True)
def importable_in_workers(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=":")


def command(images: Path, out: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-c", MAIN, "run", "--model", "subject:load", "--images", str(images), "--out", str(out),
        "--size", "32", "--shard", "2", "--threads", "1", "--methods", "gradient,rise(masks=3000),random",
        "--metrics", "deletion", *more,
    ]  # fmt: skip


@contextmanager
def started(*commands: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that do not outlive the body."""
    running = [subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for command in commands]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()


def wait_until(true, seconds: float = 240) -> bool:
    deadline = time.monotonic() + seconds
    while not (reached := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(reached)


def units(out: Path) -> list[str]:
    return list(finished_units(out))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.exhaustive)]
)
def test_signals_stop_a_run_and_its_workers(images, tmp_path, number, code):
    """Also where the parent has no time to stop them."""
    with started(command(images, tmp_path, "--workers", "2")) as (process,):
        assert wait_until(lambda: units(tmp_path) or process.poll() is not None)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children, "no worker is there to be stopped"
        process.send_signal(number)
        output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == code
    assert "Traceback" not in output
    if number == signal.SIGTERM:
        assert output.endswith("snellen: stopped by SIGTERM; finished work is kept, and the same command continues\n")
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    assert units(tmp_path)


def test_a_closed_terminal_interrupts_and_an_ignored_one_does_not():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    try:
        with stopping_on_signals() as received:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGHUP)
            assert received == [signal.SIGHUP]
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with stopping_on_signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
        assert received == []
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("default")
def test_a_dead_dask_scheduler_is_one_sentence(images, tmp_path):
    out, place = tmp_path / "run", tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(place), "--no-dashboard"]
    part = [sys.executable, "-m"]
    scheduler = [*part, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    worker = [*part, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common]
    with started(scheduler, worker) as cluster:
        assert wait_until(place.exists)
        with started(command(images, out, "--dask", json.loads(place.read_text())["address"])) as (process,):
            assert wait_until(lambda: units(out) or process.poll() is not None)
            cluster[0].kill()
            output = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 2
    assert "Traceback" not in output
    assert "are gone in the middle of the work; finished work is kept" in output
    assert units(out)


def main(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["snellen", *arguments])
    with pytest.raises(SystemExit) as end:
        command_line.main()
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize("model", ["exiting", "exits_at_once"])
def test_a_model_that_calls_sys_exit_does_not_end_the_command_with_0(monkeypatch, capsys, one_white, tmp_path, model):
    code, output = main(
        monkeypatch, capsys,
        "run", "--model", f"subject:{model}", "--images", str(one_white), "--out", str(tmp_path), "--size", "32",
        "--methods", "gradient,random", "--metrics", "complexity",
    )  # fmt: skip
    assert code == 2
    assert f"'subject:{model}' called sys.exit(0)" in output


def leave(*_) -> None:
    sys.exit(0)


def test_a_method_and_a_metric_that_call_sys_exit_fail_by_name_and_nothing_else_does(images, tmp_path):
    samples = from_folder(images, geometry=AS_IS).take([0, 1])
    with (
        own_method("leaves", leave),
        own_metric("leaves", leave),
        pytest.raises(UnfinishedError, match=r"1 of 3 units failed, the first being leaves .*leaves called sys.exit\(0\)"),
    ):
        evaluate(load(), samples, methods=["leaves", "gradient", "random"], metrics=["leaves", "complexity"], out=tmp_path)
    run = Run(tmp_path)
    assert set(run.scores()["metric"]) == {"complexity"}
    assert set(run.scores()["method"]) == {"gradient", "random"}
    assert "leaves called sys.exit(0)" in run.problems()["gradient", "leaves"]


def test_a_model_that_calls_sys_exit_in_the_middle_is_named(one_white):
    samples = from_folder(one_white, geometry=AS_IS)
    with pytest.raises(SnellenError, match=r"looking at the images failed .*'Exiting' called sys.exit\(0\)"):
        evaluate(Exiting(), samples, methods=["random"], metrics=["complexity"])


@pytest.mark.exhaustive
def test_a_model_that_kills_its_worker_is_one_sentence(one_white):
    samples = from_folder(one_white, geometry=AS_IS)
    options = Options(workers=2)
    with pytest.raises(SnellenError, match=r"looking at the images failed .*died, 3 times in a row"):
        evaluate(Dying(), samples, methods=["random"], metrics=["complexity"], options=options)


def raise_error(*_) -> None:
    raise SnellenError("not today")


def test_a_refused_run_without_out_leaves_no_folder(images, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    samples = from_folder(images, geometry=AS_IS).take([0])
    with own_metric("refuses", raise_error, needs={"truth"}):
        for settings in ({"methods": ["nothing"]}, {"metrics": ["refuses"]}, {"target": 99}, {"samples": []}):
            with pytest.raises(SnellenError):
                evaluate(**{"classifier": load(), "samples": samples, "methods": ["random"], "metrics": None} | settings)
    assert not list(tmp_path.iterdir())
    run = evaluate(load(), samples, methods=["random"], metrics=None)
    assert list(tmp_path.iterdir()) == [run.folder]
    del run
    assert not list(tmp_path.iterdir())
