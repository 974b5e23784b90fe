"""Where calls run: in this process, in a pool of processes, or on whatever is a `concurrent.futures.Executor`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

from snellen.errors import SnellenError
from snellen.runs.dispatch import PACE, TRIES, Bundle, Call, Dispatch, Pace, Tempo, Work
from snellen.runs.parcel import (
    CallOutcome,
    Parcel,
    ParcelRefusal,
    SentOnce,
    pack,
    place_payload,
    run_calls,
    run_here,
    run_parcel,
)
from snellen.types import Passes

R = TypeVar("R")

SLOTS = 8
"""How many calls are taken to run at a time in an executor that does not say; `Options.workers` says otherwise."""

TICK = 1.0
"""Seconds after which the number of workers, and whether one is late, is looked at again."""

Sent = Future[list[CallOutcome] | ParcelRefusal]


@runtime_checkable
class Crew(Protocol):
    """Workers that run bundles of calls."""

    @property
    def elsewhere(self) -> bool:
        """Whether they may be on other machines."""
        ...

    def check(self, plugins: Sequence[Any]) -> list[str]:
        """Refuses workers that cannot compute with these methods and metrics; returns notes for the user."""
        ...

    def slots(self) -> int:
        """How many bundles run at a time, now."""
        ...

    def submit(self, calls: Sequence[tuple[str, Call[Any]]], *, whole: bool = False) -> Sent:
        """Sends calls; with `whole`, together with what is usually sent once."""
        ...

    def is_loss(self, problem: BaseException) -> bool:
        """Whether this error says that workers died of a bundle, while others go on."""
        ...

    def revived(self) -> bool:
        """Whether there are new workers after all were lost."""
        ...

    def suspects(self) -> Collection[str]:
        """Keys of the calls that were running when all workers were lost."""
        ...


class LostWorkerError(Exception):
    """Every worker that computed a unit died."""

    def __init__(self) -> None:
        super().__init__(
            f"the worker that computed it died, {TRIES} times in a row; memory may have run out, "
            "or the model or plug-in ends its process: see what happens without --workers "
            '(a script with workers runs under `if __name__ == "__main__":`, because each worker imports it)'
        )


def run_all(
    works: Iterable[Work[R] | None],
    *,
    crew: Crew | None,
    on_pass: Callable[[Passes], None],
    on_start: Callable[[str], None],
    expected: float | None = None,
    tempo: Tempo | None = None,
    pace: Pace = PACE,
) -> Iterator[tuple[str, R | Exception]]:
    """Runs calls and yields (key, result or exception) as they finish; only a few per worker are submitted at a time.

    Args:
        works: The calls, each built when it is its turn. None says that more may come after the next result.
        crew: Who runs them; None for this process.
        on_pass: Called with the passes of calls in this process.
        on_start: Called with the key of a call that starts.
        expected: Expected seconds of all works, so that workers end at about the same time; None where that is not known.
        tempo: What is known about how long work takes; it learns from these works.
        pace: How much is sent at a time.
    """
    if crew is not None:
        dispatch = Dispatch(works, expected=expected, pace=pace, tempo=Tempo() if tempo is None else tempo)
        yield from _drain(dispatch, crew, on_start)
        return
    for work in works:
        if work is not None:
            on_start(work.key)
            try:
                yield work.key, run_here(work.call, on_pass)
            except Exception as problem:
                yield work.key, problem


@contextmanager
def crew_of(executor: Executor | None, workers: int, devices: Sequence[str] = ()) -> Iterator[Crew | None]:
    """The workers of an executor, or of a new pool of processes, which serve a whole run; None for this process.

    Args:
        executor: Used instead of a new pool.
        workers: Processes of a new pool; up to 1 computes in this process. Of an executor that does not say how many calls
            it runs at a time, this many.
        devices: Graphics cards that the processes of a new pool take in turn, as `CUDA_VISIBLE_DEVICES` names them.
    """
    if executor is None and workers <= 1:
        yield None
        return
    if executor is not None and is_cluster(executor):
        from snellen.runs.dask_cluster import DaskCrew

        with DaskCrew(executor) as cluster:
            yield cluster
        return
    with tempfile.TemporaryDirectory(prefix="snellen-", ignore_cleanup_errors=True) as folder:
        if executor is not None:
            yield ExecutorCrew(executor, workers, Path(folder))
        else:
            with PoolCrew(workers, Path(folder), devices) as pool:
                yield pool


def is_cluster(executor: Executor) -> bool:
    """Whether it is that of a Dask client."""
    return type(executor).__module__.startswith("distributed.")


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a running Dask cluster."""
    try:
        from snellen.runs.dask_cluster import connected
    except ImportError:
        raise SnellenError("--dask needs the extra: pip install 'snellen[dask]'") from None
    with connected(address) as executor:
        yield executor


# Results as they come -------------------------------------------------------------------------------------------------


def _drain(dispatch: Dispatch[R], crew: Crew, on_start: Callable[[str], None]) -> Iterator[tuple[str, R | Exception]]:
    """Sends bundles as the dispatch says, and yields results as they come."""
    arrivals: SimpleQueue[int] = SimpleQueue()
    sent: dict[int, tuple[Bundle[R], Sent]] = {}
    abandoned: list[Sent] = []
    ready: list[tuple[str, R | Exception]] = []

    def send(bundle: Bundle[R], whole: bool = False) -> None:
        on_start(bundle.works[0].key)
        try:
            future = crew.submit([(work.key, work.call) for work in bundle.works], whole=whole)
        except BrokenExecutor:
            dispatch.refused(bundle)
            lose_all()
        except Exception as refusal:  # a call that cannot be pickled
            dispatch.refused(bundle)
            if len(bundle.works) == 1:
                give_up(bundle.works[0], refusal)
        else:
            sent[bundle.number] = bundle, future
            future.add_done_callback(lambda _: arrivals.put(bundle.number))

    def send_all() -> None:
        while (bundle := dispatch.bundle(crew.slots(), time.monotonic())) is not None:
            send(bundle)

    def give_up(work: Work[R], problem: Exception) -> None:
        dispatch.forget(work.key)
        ready.append((work.key, problem))

    def lose_all(reason: str = "") -> None:
        """All workers are gone: what they had is sent again to new ones, if there are any."""
        suspects = crew.suspects()
        for bundle, future in list(sent.values()):
            future.cancel()
            ready.extend((work.key, LostWorkerError()) for work in dispatch.lost(bundle, suspects=suspects))
        sent.clear()
        if not crew.revived():
            raise SnellenError(
                f"the workers of the executor are gone in the middle of the work{reason}; "
                "finished work is kept, and the same command continues"
            )

    def take(bundle: Bundle[R], future: Sent) -> list[tuple[str, R | Exception]]:
        """The results of a bundle that count."""
        problem = CancelledError() if future.cancelled() else future.exception()
        if isinstance(problem, BrokenExecutor | CancelledError):
            sent[bundle.number] = bundle, future
            lose_all(f" ({problem})" if str(problem) else "")
        elif problem is not None and crew.is_loss(problem):
            ready.extend((work.key, LostWorkerError()) for work in dispatch.lost(bundle, certain=True))
        elif isinstance(problem, Exception):
            dispatch.refused(bundle)
            if len(bundle.works) == 1:
                give_up(bundle.works[0], problem)
        elif problem is not None:
            raise problem
        elif isinstance(outcomes := future.result(), ParcelRefusal):
            if outcomes.lacking is None:
                raise SnellenError(outcomes.sentence)
            send(bundle, whole=True)
        else:
            new, useless = dispatch.finished(bundle, {outcome.key: outcome.timing for outcome in outcomes})
            # Not cancelled before the end: a worker that hangs would look free, and get more work.
            abandoned.extend(sent.pop(late.number)[1] for late in useless)
            return [(outcome.key, outcome.open()) for outcome in outcomes if outcome.key in new]
        return []

    try:
        while not dispatch.done or ready:
            send_all()
            results: list[tuple[str, R | Exception]] = []
            if not ready:
                with suppress(Empty):
                    number = arrivals.get(timeout=TICK)
                    if number in sent:
                        results = take(*sent.pop(number))
                        send_all()  # first, so that workers have work while results are written
            results, ready[:] = [*results, *ready], []
            yield from results
            dispatch.resume()
    finally:
        for future in [*abandoned, *(future for _, future in sent.values())]:
            future.cancel()


# Workers ----------------------------------------------------------------------------------------------------------------


class ExecutorCrew:
    """The workers of an executor that somebody else made.

    Processes on this machine read what is sent once from a folder; nothing is known about other executors.
    """

    def __init__(self, executor: Executor, workers: int, folder: Path) -> None:
        self._executor, self._folder = executor, folder
        self._slots = workers or getattr(executor, "_max_workers", None) or SLOTS
        self._local = isinstance(executor, ProcessPoolExecutor)

    @property
    def elsewhere(self) -> bool:
        """Whether they may be on other machines."""
        return not self._local and not isinstance(self._executor, ThreadPoolExecutor)

    def check(self, plugins: Sequence[Any]) -> list[str]:
        """Nothing: what workers lack is said when they get work."""
        return []

    def slots(self) -> int:
        """How many bundles run at a time."""
        return int(self._slots)

    def submit(self, calls: Sequence[tuple[str, Call[Any]]], *, whole: bool = False) -> Sent:
        """Sends calls."""
        if isinstance(self._executor, ThreadPoolExecutor):  # which needs no copy
            return self._submitted(run_calls, calls)
        content, shared = pack(calls)
        if self._local and not whole:
            place_all(self._folder, shared)
            return self._submitted(run_parcel, Parcel(content, str(self._folder), {}))
        return self._submitted(run_parcel, Parcel(content, None, {name: item.payload() for name, item in shared.items()}))

    def _submitted(self, function: Callable[..., Any], argument: Any) -> Sent:
        try:
            return self._executor.submit(function, argument)
        except (SnellenError, BrokenExecutor):
            raise
        except Exception as problem:  # the executor takes no more calls
            raise BrokenExecutor(f"{type(problem).__name__}: {problem}") from problem

    def is_loss(self, problem: BaseException) -> bool:
        """Never: an executor breaks as a whole."""
        return False

    def revived(self) -> bool:
        """Never: somebody else made it."""
        return False

    def suspects(self) -> Collection[str]:
        """Not known."""
        return ()


class PoolCrew:
    """A pool of new processes, which is made again where one of them dies."""

    elsewhere = False

    def __init__(self, workers: int, folder: Path, devices: Sequence[str] = ()) -> None:
        self._workers, self._folder, self._devices = workers, folder, tuple(devices)
        self._pool = ExitStack()
        self._futures: list[Sent] = []

    def __enter__(self) -> PoolCrew:
        self._executor = self._pool.enter_context(process_pool(self._workers, self._devices))
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: Any) -> None:
        running = any(not future.done() for future in self._futures)
        if kind is None and running:  # nobody waits for what a slow worker still computes
            kind, problem = CancelledError, CancelledError()
        with suppress(CancelledError):
            self._pool.__exit__(kind, problem, trace)

    def check(self, plugins: Sequence[Any]) -> list[str]:
        """Nothing: what workers lack is said when they get work."""
        return []

    def slots(self) -> int:
        """How many bundles run at a time."""
        return self._workers

    def submit(self, calls: Sequence[tuple[str, Call[Any]]], *, whole: bool = False) -> Sent:
        """Sends calls."""
        content, shared = pack(calls)
        place_all(self._folder, shared)
        future = self._executor.submit(run_parcel, Parcel(content, str(self._folder), {}, marks=True))
        self._futures = [*(future for future in self._futures if not future.done()), future]
        return future

    def is_loss(self, problem: BaseException) -> bool:
        """Never: a pool of processes breaks as a whole."""
        return False

    def suspects(self) -> Collection[str]:
        """Keys of the calls that the processes were running."""
        return {path.read_text(encoding="utf-8") for path in self._folder.glob("running-*")}

    def revived(self) -> bool:
        """Makes a new pool in place of the broken one."""
        self._pool.close()
        for path in self._folder.glob("running-*"):
            path.unlink()
        self._futures = []
        self.__enter__()
        return True


def place_all(folder: Path, shared: dict[str, SentOnce]) -> None:
    """Puts what is sent once where processes on this machine read it."""
    for name, item in shared.items():
        if not (folder / name).exists():
            place_payload(folder, name, item.payload())


@contextmanager
def process_pool(workers: int, devices: Sequence[str] = ()) -> Iterator[Executor]:
    """New processes, which end with the body: at once where it raises, and also where this process is killed.

    Args:
        workers: How many.
        devices: Graphics cards that they take in turn, as `CUDA_VISIBLE_DEVICES` names them; each process sees one.
    """
    context = multiprocessing.get_context("spawn")  # a forked process would hang where torch has used threads
    reader, writer = context.Pipe(duplex=False)
    started = context.Value("i", 0)
    with reader, writer:
        arguments = reader, started, tuple(devices)
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker, initargs=arguments)
        try:
            yield pool
        except BaseException:
            writer.send_bytes(b"stop")  # it is never read, so that every worker sees it
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_worker(reader: Connection, started: Any, devices: Sequence[str]) -> None:
    """Gives this worker its graphics card, and ends it with its parent."""
    if devices:
        with started.get_lock():
            number, started.value = started.value, started.value + 1
        # Before CUDA is used here for the first time, which is when it reads this. The card is then cuda:0 in this process.
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
    _end_with_parent(reader)


def visible_devices() -> list[str]:
    """The graphics cards of this machine that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    import torch

    stated = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    count = torch.cuda.device_count()
    return stated[:count] if stated else [str(number) for number in range(count)]


def _end_with_parent(reader: Connection) -> None:
    """Ends this worker when its parent sends a message or is gone; Ctrl-C is left to the parent."""

    def watch() -> None:
        try:
            reader.poll(None)
        finally:
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
