"""kill -9 at any moment, run the same command again: nothing finished is repeated, and the tables are the same bits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.runs.subject import finished_units, write_images

from snellen.runs import Run

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from snellen.cli.main import main; main()"
"""A process that a shell starts in the background ignores Ctrl-C, and so do its children; this one does not."""


def command(images: Path, out: Path) -> list[str]:
    return [
        sys.executable, "-c", MAIN, "run",
        "--model", "subject:load", "--images", str(images), "--out", str(out),
        "--size", "32", "--shard", "4", "--threads", "1", "--engine", "eager",
        "--methods", "gradient,grad-cam,rise(masks=150),smoothgrad(samples=4),random,edge",
        "--metrics", "deletion,insertion,average-drop,complexity,max-sensitivity(samples=2)",
    ]  # fmt: skip


def start(images: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(images, out), cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(images: Path, out: Path) -> str:
    done = subprocess.run(command(images, out), cwd=HERE, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[Path, Path]:
    images = write_images(tmp_path_factory.mktemp("images"), count=16)
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    finish(images, out)
    return images, out


def test_an_interrupted_run_says_that_nothing_is_lost(undisturbed, tmp_path):
    images, _ = undisturbed
    process = start(images, tmp_path / "interrupted")
    deadline = time.monotonic() + 120
    while not finished_units(tmp_path / "interrupted") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert output.decode().endswith("snellen: interrupted; finished work is kept, and the same command continues\n")
    assert "Traceback" not in output.decode()


@pytest.mark.parametrize(
    "kills",
    [pytest.param((1,), marks=pytest.mark.exhaustive), (3, 9), pytest.param((6, 14, 20), marks=pytest.mark.exhaustive)],
)
def test_killed_runs_continue_to_the_same_bits(undisturbed, tmp_path, kills):
    images, reference = undisturbed
    out = tmp_path / "killed"
    luck = random.Random(sum(kills))
    for finished in kills:
        process = start(images, out)
        deadline = time.monotonic() + 120
        while len(finished_units(out)) < finished and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(luck.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    before = finished_units(out)
    assert len(before) >= kills[-1]
    output = finish(images, out)
    after = finished_units(out)
    assert {name: after[name] for name in before} == before, "a finished unit was run again"
    if len(before) < len(after):
        assert f"{len(before)} of {len(after)} units are already finished" in output
    assert (out / "scores.parquet").read_bytes() == (reference / "scores.parquet").read_bytes()
    for method in Run(out).methods:
        np.testing.assert_array_equal(Run(out).maps(method), Run(reference).maps(method))
    assert not list(out.rglob(".writing-*"))


def test_a_full_disk_is_one_sentence_and_keeps_what_is_finished(undisturbed, tmp_path):
    """The file-size limit of the process stands in for a full disk: the kernel refuses the write in the same place."""
    images, _ = undisturbed
    out = tmp_path / "full"
    limited = ["bash", "-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "bash", *command(images, out)]
    done = subprocess.run(limited, cwd=HERE, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "finished work is kept" in done.stderr
    finish(images, out)
