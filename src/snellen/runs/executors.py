"""Where units run: in this process, in a pool of processes, or on whatever is a `concurrent.futures.Executor`."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import cloudpickle

from snellen.errors import SnellenError, no_exit
from snellen.types import Passes

R_co = TypeVar("R_co", covariant=True)

TRIES = 3
"""How often a unit is tried before a lost worker is reported as an error."""

PATIENCE = 60
"""Seconds that a Dask cluster may be without workers."""


@runtime_checkable
class Call(Protocol[R_co]):
    """A picklable piece of work."""

    def __call__(self, on_pass: Callable[[Passes], None] | None = None) -> R_co: ...


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a running Dask cluster; it breaks if the scheduler dies, or lacks workers for `PATIENCE` seconds."""
    try:
        from distributed import Client
    except ImportError:
        raise SnellenError("--dask needs the extra: pip install 'snellen[dask]'") from None
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as problem:
        raise SnellenError(f"no Dask scheduler answers at '{address}' ({problem}); start one or leave out --dask") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is a sentence, not a traceback
    ended = threading.Event()
    threading.Thread(target=_watch_workers, args=(client, ended), daemon=True).start()
    try:
        yield client.get_executor(retries=TRIES)
    finally:
        ended.set()
        with suppress(OSError, TimeoutError):  # the scheduler may be dead
            client.close(timeout=2)


def _watch_workers(client: Any, ended: threading.Event) -> None:
    """Closes the client, which cancels all calls, once the scheduler had no workers for `PATIENCE` seconds."""
    missing = 0
    while missing < PATIENCE:
        if ended.wait(1):
            return
        missing = 0 if client.scheduler_info()["workers"] else missing + 1
    client.close()


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """New processes, which end with the body: at once where it raises, and also where this process is killed."""
    context = multiprocessing.get_context("spawn")  # a forked process would hang where torch has used threads
    reader, writer = context.Pipe(duplex=False)
    with reader, writer:
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent, initargs=(reader,))
        try:
            yield pool
        except BaseException:
            writer.send_bytes(b"stop")  # it is never read, so that every worker sees it
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent(reader: Connection) -> None:
    """Ends this worker when its parent sends a message or is gone; Ctrl-C is left to the parent."""

    def watch() -> None:
        try:
            reader.poll(None)
        finally:
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


class LostWorkerError(Exception):
    """Every worker that computed a unit died."""

    def __init__(self) -> None:
        super().__init__(
            f"the worker that computed it died, {TRIES} times in a row; memory may have run out, "
            "or the model or plug-in ends its process: see what happens without --workers "
            '(a script with workers runs under `if __name__ == "__main__":`, because each worker imports it)'
        )


def run_all(
    calls: Iterable[tuple[str, Call[R_co]]],
    *,
    workers: int,
    executor: Executor | None,
    on_pass: Callable[[Passes], None],
    on_start: Callable[[str], None],
) -> Iterator[tuple[str, R_co | Exception]]:
    """Runs calls and yields (key, result or exception) as they finish; only a few are submitted at a time.

    Args:
        calls: Pairs of a key and a call.
        workers: Processes of a new pool; up to 1 computes in this process.
        executor: Used instead of a new pool.
        on_pass: Called with the passes of calls in this process.
        on_start: Called with the key of each call that starts.
    """
    if executor is None and workers <= 1:
        for key, call in calls:
            on_start(key)
            try:
                yield key, _run(call, on_pass)
            except Exception as problem:
                yield key, problem
        return
    source = iter(calls)
    if executor is not None:
        # Other executors pickle in their own way: Dask uses cloudpickle too, and threads need no copy.
        pack: Callable[[Call[R_co]], Call[R_co]] = (
            _packed if isinstance(executor, ProcessPoolExecutor) else lambda call: call
        )
        for key, _, result in _drain(source, executor, 2 * max(2, workers), on_start, pack):
            if isinstance(result, BrokenExecutor | CancelledError):
                reason = f" ({result})" if str(result) else ""
                raise SnellenError(
                    f"the workers of {type(executor).__name__} are gone in the middle of the work{reason}; "
                    "finished work is kept, and the same command continues"
                )
            yield key, result
        return
    while True:
        # A pool with a dead worker refuses everything: calls that were submitted run singly, the rest in a new pool.
        lost: list[tuple[str, Call[R_co]]] = []
        with process_pool(workers) as pool:
            for key, call, result in _drain(source, pool, 2 * workers, on_start, pack=_packed):
                if isinstance(result, BrokenExecutor):
                    lost.append((key, call))
                else:
                    yield key, result
        if not lost:
            return
        yield from _run_singly(lost, on_start)


def _run_singly(
    calls: list[tuple[str, Call[R_co]]], on_start: Callable[[str], None]
) -> Iterator[tuple[str, R_co | Exception]]:
    """Runs calls that were lost together, one per worker: so a worker that dies was killed by its own call."""
    left, deaths = list(calls), Counter({key: 1 for key, _ in calls})
    while left:
        with process_pool(1) as pool:
            broken = False
            while left and not broken:
                ((key, _, result),) = _drain(iter(left[:1]), pool, 1, on_start, pack=_packed)
                broken = isinstance(result, BrokenExecutor)
                deaths[key] += broken
                if broken and deaths[key] < TRIES:
                    continue
                del left[0]
                yield key, LostWorkerError() if broken else result


def _run(call: Call[R_co], on_pass: Callable[[Passes], None] | None = None) -> R_co:
    with no_exit("the model or a plug-in"):
        return call(on_pass)


@dataclass(frozen=True)
class _Packed(Generic[R_co]):
    """A pickled call. A call that cannot be pickled is refused here and not in a thread of the pool.

    cloudpickle includes lambdas and classes of a script or notebook.
    """

    content: bytes

    def __call__(self, on_pass: Callable[[Passes], None] | None = None) -> R_co:
        call: Call[R_co] = cloudpickle.loads(self.content)
        return call(on_pass)


def _packed(call: Call[R_co]) -> Call[R_co]:
    return _Packed(cloudpickle.dumps(call))


def _drain(
    calls: Iterator[tuple[str, Call[R_co]]],
    executor: Executor,
    window: int,
    on_start: Callable[[str], None],
    pack: Callable[[Call[R_co]], Call[R_co]] = lambda call: call,
) -> Iterator[tuple[str, Call[R_co], R_co | Exception]]:
    """Results as they come. A broken executor gets no more calls: the rest stays in the iterator, for the next executor."""
    pending: dict[Future[R_co], tuple[str, Call[R_co]]] = {}
    more = True
    while more or pending:
        while more and len(pending) < window:
            pair = next(calls, None)
            if pair is None:
                more = False
                break
            key, call = pair
            on_start(key)
            try:
                packed = pack(call)
            except Exception as refusal:
                yield key, call, refusal
                continue
            try:
                pending[executor.submit(_run, packed)] = pair
            except SnellenError as refusal:
                yield key, call, refusal
            except Exception as refusal:  # a pool, or the client of a cluster, that takes no more calls
                more = False
                reason = f"{type(refusal).__name__}: {refusal}".strip()
                yield key, call, refusal if isinstance(refusal, BrokenExecutor) else BrokenExecutor(reason)
        done, _ = wait(pending, return_when=FIRST_COMPLETED) if pending else (set[Future[R_co]](), None)
        for future in done:
            key, call = pending.pop(future)
            problem = CancelledError() if future.cancelled() else future.exception()
            more = more and not isinstance(problem, BrokenExecutor)
            if problem is None:
                yield key, call, future.result()
            elif isinstance(problem, Exception):
                yield key, call, problem
            else:
                raise problem
