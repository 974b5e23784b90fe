"""A real Dask cluster on this machine: workers that join, die and hang, a scheduler that dies, versions that differ."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.runs.subject import write_images

from snellen import __version__
from snellen.errors import SnellenError
from snellen.runs.dispatch import Pace, Work
from snellen.runs.executors import LostWorkerError, crew_of, dask_executor, process_pool, run_all, visible_devices

HERE = Path(__file__).parent
SHORT = Pace(aim=0.5, patience=1.0)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1]), *inherited]))


class Cluster:
    """A scheduler and its workers, which are ended with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, []
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.place))
        deadline = time.monotonic() + 60
        while not self.place.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.address = json.loads(self.place.read_text())["address"]

    @property
    def place(self) -> Path:
        return self.folder / "scheduler.json"

    def start(self, kind: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", *options],
            cwd=self.folder,
            env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0", **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder))
        return self.start("worker", self.address, *options, **environment)


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    started = Cluster(tmp_path)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


def naps(count: int, seconds: float, large=None) -> list[Work[int]]:
    from tests.runs.cluster_calls import Nap

    return [Work(f"{number}", Nap(seconds, large), {"nap": seconds}) for number in range(count)]


def run(works, executor, workers=0, **options):
    with crew_of(executor, workers) as crew:
        yield from run_all(works, crew=crew, on_pass=lambda passes: None, on_start=lambda key: None, **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_that_join_late_die_and_hang(cluster, tmp_path):
    """One worker begins, a second joins, the first is killed, a third joins, and the second hangs: nothing is lost."""
    from tests.runs.cluster_calls import Large, Nap

    first, second, third = cluster.worker(), None, None
    large = Large(2_000_000, tmp_path)
    results: dict[str, int] = {}
    hung_at: list[int] = []

    def works() -> Iterator[Work[int]]:
        for number in range(20_000):
            if hung_at and number > hung_at[0] + 100:
                return
            yield Work(f"{number}", Nap(0.02, large), {"nap": 0.02})

    with dask_executor(cluster.address) as executor:
        for key, result in run(works(), executor, pace=SHORT):
            assert key not in results
            results[key] = result
            if second is None:
                second = cluster.worker()
            elif third is None and result == second.pid:
                first.kill()
                third = cluster.worker()
            elif third is not None and not hung_at and result == third.pid:
                second.send_signal(signal.SIGSTOP)
                hung_at.append(len(results))
    assert hung_at
    assert sorted(results, key=int) == [f"{number}" for number in range(len(results))]
    assert {first.pid, second.pid, third.pid} == set(results.values())
    for process in (first, second, third):
        assert (tmp_path / f"opened-{process.pid}").read_text() == "once\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_call_that_ends_workers_is_given_up_and_a_scheduler_that_dies_is_a_sentence(cluster, tmp_path):
    from tests.runs.cluster_calls import End, Fail, Large, Setting

    from snellen.runs.dask_cluster import check_cluster

    for _ in range(6):
        cluster.worker()
    with dask_executor(cluster.address) as executor:
        executor._client.wait_for_workers(6, timeout=60)
        assert check_cluster(executor._client, []) == []
        works = [*naps(20, 0.02), Work("end", End(), {"nap": 0.02}), Work("fail", Fail(), {"nap": 0.02})]
        works.append(Work("pages", Setting("THP_MEM_ALLOC_ENABLE", Large(1000, tmp_path)), {"nap": 0.02}))
        results = dict(run(works, executor, expected=0.5, pace=SHORT))
        assert results.pop("pages") == "1"
        assert isinstance(results.pop("end"), LostWorkerError)
        assert "PickyError: a and b" in str(results.pop("fail"))
        assert len(results) == 20
        cluster.worker()
        rest = run(naps(1000, 0.1), executor, expected=100.0, pace=SHORT)
        next(rest)
        cluster.scheduler.kill()
        with pytest.raises(SnellenError, match=r"are gone in the middle of the work.* finished work is kept"):
            list(rest)


def fake_snellen(folder: Path, code: str) -> str:
    package = folder / "snellen"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    return str(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("__version__ = '0.0.7'", f"has Snellen 0.0.7, but this is {__version__}; install the same version there"),
        ("raise ImportError('none')", f"has no Snellen; install version {__version__} there"),
    ],
)
def test_a_cluster_with_another_snellen_is_refused_before_anything_is_computed(cluster, tmp_path, code, sentence):
    from snellen.runs.dask_cluster import check_cluster

    cluster.worker(PYTHONPATH=fake_snellen(tmp_path / "other", code))
    with dask_executor(cluster.address) as executor:
        executor._client.wait_for_workers(1, timeout=60)
        with pytest.raises(SnellenError, match=sentence):
            check_cluster(executor._client, [])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_without_a_package_are_refused_whether_they_are_asked_or_get_work(cluster):
    from tests.runs.cluster_calls import Nap

    from snellen.runs.dask_cluster import check_cluster

    cluster.worker(PYTHONPATH=os.pathsep.join(os.environ["PYTHONPATH"].split(os.pathsep)[2:]))
    with dask_executor(cluster.address) as executor:
        executor._client.wait_for_workers(1, timeout=60)
        with pytest.raises(SnellenError, match=r"cannot import what a method or metric needs \(No module named 'tests"):
            check_cluster(executor._client, [Nap(0.0)])
        with pytest.raises(SnellenError, match=r"cannot import what the model or a plug-in needs \(No module named 'tests"):
            list(run(naps(1, 0.0), executor))


def facts(**changes):
    from snellen.runs.dask_cluster import _facts

    return {**_facts(b""), **changes}


@pytest.mark.filterwarnings("default")
def test_what_workers_say_of_themselves():
    from snellen.runs.dask_cluster import check_facts, thread_notes

    assert thread_notes({"tcp://a": 1, "tcp://b": 1}) == []
    assert thread_notes({"tcp://a": 8, "tcp://b": 1})[0].startswith("1 of 2 workers have several threads (8), but a process")
    assert check_facts({"scheduler": facts(), "tcp://a": facts()}) == []
    (note,) = check_facts({"tcp://a": facts(torch="1.0"), "tcp://b": facts()})
    assert note.startswith("workers have torch 1.0, but this is ")
    for changes, sentence in {
        ("snellen", "9.9"): "the Dask worker tcp://a has Snellen 9.9, but this is",
        ("python", "2.7"): "runs Python 2.7, but this is .*; use the same minor version",
        ("missing", "No module named 'x'"): r"cannot import what a method or metric needs \(No module named 'x'\)",
    }.items():
        with pytest.raises(SnellenError, match=sentence):
            check_facts({"tcp://a": facts(**dict([changes]))})


# Pools of processes and threads --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_processes_get_what_is_large_once_and_lose_only_the_call_that_ends_them(tmp_path, own):
    from tests.runs.cluster_calls import Closed, End, Fail, Large

    large = Large(1_000_000, tmp_path)
    works = [*naps(60, 0.01, large), Work("fail", Fail(), {"nap": 0.01}), Work("closed", Closed(), {"nap": 0.01})]
    if own:
        works.insert(30, Work("end", End(), {"nap": 0.01}))
        results = dict(run(works, None, workers=2, expected=0.6, pace=SHORT))
        assert isinstance(results.pop("end"), LostWorkerError)
    else:
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            results = dict(run(works, pool, expected=0.6, pace=SHORT))
    assert "PickyError: a and b" in str(results.pop("fail"))
    assert "this stays here" in str(results.pop("closed"))
    assert sorted(results, key=int) == [f"{number}" for number in range(60)]
    opened = {path.name: path.read_text() for path in tmp_path.glob("opened-*")}
    assert set(opened.values()) == {"once\n"}
    assert {f"opened-{pid}" for pid in results.values()} <= set(opened)


@pytest.mark.slow
def test_processes_take_graphics_cards_in_turn():
    """There are none here: what is tested is which card a process is told to see."""
    from tests.runs.cluster_calls import card_of

    with process_pool(2, devices=("4", "MIG-7")) as pool:
        seen = set(pool.map(card_of, [3.0] * 4))
    assert seen == {"4", "MIG-7"}


def test_cards_are_those_that_this_process_sees(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_devices() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-8")
    assert visible_devices() == ["3", "GPU-8"]


def test_a_bundle_is_closed_once_and_divided_where_that_fails(tmp_path):
    closed = []

    class Last:
        def __init__(self, fails: bool) -> None:
            self.fails = fails

        def __call__(self, on_pass=None) -> str:
            return "result"

        def close(self) -> None:
            closed.append(self.fails)
            if self.fails:
                raise SnellenError("the disk is full")

    works = [Work(f"{number}", Last(number == 3), {"kind": 1e-4}) for number in range(4)]
    with ThreadPoolExecutor(1) as pool:
        results = dict(run(works, pool, expected=4e-4))
    assert [results[key] for key in "012"] == ["result"] * 3
    assert isinstance(results["3"], SnellenError)
    assert closed == [False, False, True, False, True]  # the last two together, and then each alone


def test_threads_run_calls_one_at_a_time_and_without_copies():
    from tests.runs.cluster_calls import Closed

    running, most = [], []

    class Watched(Closed):
        def __call__(self, on_pass=None):
            running.append(threading.get_ident())
            most.append(len(running))
            time.sleep(0.001)
            running.pop()

    with ThreadPoolExecutor(4) as pool:
        works = [Work(f"{number}", Watched(), {"nap": 0.001}) for number in range(40)]
        assert len(dict(run(works, pool, expected=0.04))) == 40
    assert max(most) == 1


# A whole run ------------------------------------------------------------------------------------------------------------


@contextmanager
def started(images: Path, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable, "-c", "from snellen.cli.main import main; main()",
        "run", "--model", "subject:load", "--images", str(images), "--size", "32",
        "--out", str(out), "--shard", "2", "--threads", "1", "--methods", "gradient,rise(masks=400),random",
        "--metrics", "deletion(steps=6),max-sensitivity(samples=3)", *options,
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("default")
def test_a_client_that_dies_and_returns_ends_with_the_same_bits(cluster, tmp_path):
    images = write_images(tmp_path / "images", count=16)
    cluster.worker()
    cluster.worker()
    out = tmp_path / "run"
    with started(images, out, "--dask", cluster.address) as process:
        deadline = time.monotonic() + 120
        while not (out / "run.json").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(1)
    with started(images, out, "--dask", cluster.address) as process:
        assert "Traceback" not in process.communicate(timeout=240)[0]
        assert process.returncode == 0
    with started(images, tmp_path / "alone") as process:
        process.communicate(timeout=240)
    assert (out / "scores.parquet").read_bytes() == (tmp_path / "alone" / "scores.parquet").read_bytes()
