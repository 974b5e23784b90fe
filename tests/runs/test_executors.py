"""Other processes and other machines compute the same numbers, and a killed worker's units are run again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import psutil
import pytest
from tests.runs.subject import finished_units, load, logits, write_images

import snellen
from snellen.errors import SnellenError
from snellen.images import from_folder
from snellen.images.geometry import AS_IS
from snellen.runs import Options, evaluate
from snellen.runs.progress import Silent

METHODS = ["gradient", "rise(masks=60)", "random"]
METRICS = ["deletion(steps=6)", "max-sensitivity(samples=2)"]


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    images = write_images(tmp_path_factory.mktemp("images"), count=12)
    return snellen.Classifier(load()), from_folder(images, geometry=AS_IS)


@pytest.fixture(scope="module")
def alone(subject, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    evaluate(*subject, methods=METHODS, metrics=METRICS, out=out, options=Options(shard=3, threads=1))
    return (out / "scores.parquet").read_bytes()


@pytest.fixture(autouse=True)
def importable_in_workers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


class Seen(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.slow
def test_workers_that_do_not_reach_the_run_folder_send_their_results(subject, alone):
    """The folder is in the memory of this process."""
    seen = Seen()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        run = evaluate(
            *subject,
            methods=METHODS,
            metrics=METRICS,
            out="memory://workers-do-not-see-this",
            options=Options(shard=3),
            executor=Wrapped(pool),
            observer=seen,
        )
    assert any(note.startswith("workers do not reach 'memory://") for note in seen.notes)
    assert len(run.scores()) == 12 * 6


class Wrapped(Executor):
    """An executor of which nothing is known."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    def submit(self, function, /, *arguments, **options):
        return self._pool.submit(function, *arguments, **options)


@pytest.mark.slow
def test_two_workers_give_the_same_bits(subject, alone, tmp_path):
    evaluate(*subject, methods=METHODS, metrics=METRICS, out=tmp_path, options=Options(shard=3, workers=2))
    assert (tmp_path / "scores.parquet").read_bytes() == alone


@pytest.mark.slow
def test_a_killed_worker_loses_no_unit(subject, alone, tmp_path):
    killed = []

    def kill_one() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not killed:
            if finished_units(tmp_path):
                for child in psutil.Process().children():
                    if "spawn_main" in " ".join(child.cmdline()):
                        os.kill(child.pid, signal.SIGKILL)
                        killed.append(child.pid)
                        return
            time.sleep(0.001)

    killer = threading.Thread(target=kill_one)
    killer.start()
    evaluate(*subject, methods=METHODS, metrics=METRICS, out=tmp_path, options=Options(shard=3, workers=2))
    killer.join()
    assert killed
    assert (tmp_path / "scores.parquet").read_bytes() == alone


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_gives_the_same_bits_and_survives_a_lost_worker(subject, alone, tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        first = tmp_path / "quiet"
        seen = Seen()
        evaluate(
            *subject,
            methods=METHODS,
            metrics=METRICS,
            out=first,
            options=Options(shard=3),
            executor=client.get_executor(),
            observer=seen,
        )
        assert f"workers write their results into '{first}' themselves" in seen.notes
        assert (first / "scores.parquet").read_bytes() == alone

        second = tmp_path / "lossy"
        workers = list(client.run(os.getpid).values())

        def kill_one() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not finished_units(second):
                time.sleep(0.001)
            os.kill(workers[0], signal.SIGKILL)

        killer = threading.Thread(target=kill_one)
        killer.start()
        evaluate(
            *subject,
            methods=METHODS,
            metrics=METRICS,
            out=second,
            options=Options(shard=3),
            executor=client.get_executor(retries=3),
        )
        killer.join()
        assert (second / "scores.parquet").read_bytes() == alone


@pytest.mark.slow
def test_black_boxes_from_a_module_and_lambdas_reach_the_workers(subject, tmp_path):
    _, samples = subject
    options = Options(shard=6, workers=2)
    box = snellen.Classifier(logits)
    run = evaluate(box, samples, methods=["rise(masks=20)"], metrics=["complexity"], options=options)
    assert run.complete
    hidden = snellen.Classifier(lambda images: logits(images), name="hidden")
    assert evaluate(hidden, samples, methods=["rise(masks=20)"], metrics=["complexity"], options=options).complete


@pytest.mark.slow
def test_an_address_where_nobody_answers_is_one_sentence():
    from snellen.runs.executors import dask_executor

    with pytest.raises(SnellenError, match="no Dask scheduler answers at"), dask_executor("tcp://127.0.0.1:9"):
        pass


SCRIPT = """
from dataclasses import dataclass

import torch
from torch import nn

import snellen
from snellen import Classifier, Options, evaluate
from snellen.plugins.registry import method
from snellen.runs.progress import Silent
from snellen.types import Passes


@method("own-brightness", cite="nobody2000", needs=set(), signed=False)
@dataclass(frozen=True)
class OwnBrightness:
    '''The brightness of each pixel.'''

    def passes(self, size, classifier):
        return Passes()

    def __call__(self, classifier, inputs, targets, *, rng):
        return inputs.mean(dim=1)


class Net(nn.Module):
    def forward(self, inputs):
        return inputs.flatten(2).mean(2)


if __name__ == "__main__":
    images = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    model = Classifier(Net(), mean=[0.5] * 3, std=[0.5] * 3)
    for classifier in (model, Classifier(lambda inputs: inputs.flatten(2).mean(2), mean=[0.5] * 3, std=[0.5] * 3)):
        tables = [
            evaluate(
                classifier, images, methods=["own-brightness", "random"], metrics=["complexity"],
                options=Options(shard=2, workers=workers), observer=Silent(),
            ).scores()
            for workers in (0, 2)
        ]
        assert tables[0].equals(tables[1])
    print("alike")
"""


@pytest.mark.slow
def test_classes_and_lambdas_of_a_script_reach_the_workers() -> None:
    """A notebook defines methods and models in `__main__`, which no worker can import."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280, check=False)
    assert done.stdout.strip() == "alike", done.stderr
