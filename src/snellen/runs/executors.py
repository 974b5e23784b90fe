"""Where units run: in this process, in a pool of processes, or on whatever is a `concurrent.futures.Executor`."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from typing import Protocol, TypeVar, runtime_checkable

from snellen.errors import SnellenError
from snellen.types import Passes

R_co = TypeVar("R_co", covariant=True)

TRIES = 3
"""How often a unit is given to a worker before its loss is reported as an error."""


@runtime_checkable
class Call(Protocol[R_co]):
    """A picklable piece of work."""

    def __call__(self, on_pass: Callable[[Passes], None] | None = None) -> R_co: ...


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The executor of a running Dask cluster."""
    try:
        from distributed import Client
    except ImportError:
        raise SnellenError("--dask needs the extra: pip install 'snellen[dask]'") from None
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as problem:
        raise SnellenError(f"no Dask scheduler answers at '{address}' ({problem}); start one or leave out --dask") from None
    try:
        yield client.get_executor(retries=TRIES)
    finally:
        client.close()


def process_pool(workers: int) -> Executor:
    """Fresh processes; forking one that has used torch threads would hang."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def run_all(
    calls: Iterable[tuple[str, Call[R_co]]],
    *,
    workers: int,
    executor: Executor | None,
    on_pass: Callable[[Passes], None],
    on_start: Callable[[str], None],
) -> Iterator[tuple[str, R_co | Exception]]:
    """Runs (key, call) pairs and yields (key, answer or exception) as they finish; only a few are in flight at a time."""
    if executor is None and workers <= 1:
        for key, call in calls:
            on_start(key)
            try:
                yield key, call(on_pass)
            except Exception as problem:
                yield key, problem
        return
    if executor is not None:
        for key, _, answer in _drain(iter(calls), executor, 2 * max(2, workers), on_start):
            yield key, answer
        return
    source, again, tries = iter(calls), list[tuple[str, Call[R_co]]](), Counter[str]()
    while True:
        # A pool with a dead worker refuses everything, so what was in flight goes to a fresh one.
        lost: list[tuple[str, Call[R_co]]] = []
        with process_pool(workers) as pool:
            for key, call, answer in _drain(chain(again, source), pool, 2 * workers, on_start):
                tries[key] += 1
                if isinstance(answer, BrokenExecutor) and tries[key] < TRIES:
                    lost.append((key, call))
                else:
                    yield key, answer
        if not lost:
            return
        again = lost


def _drain(
    calls: Iterator[tuple[str, Call[R_co]]], executor: Executor, window: int, on_start: Callable[[str], None]
) -> Iterator[tuple[str, Call[R_co], R_co | Exception]]:
    """Answers as they come. A broken executor takes no more calls: the rest stays in the iterator for its successor."""
    pending: dict[Future[R_co], tuple[str, Call[R_co]]] = {}
    more = True
    while more or pending:
        while more and len(pending) < window:
            following = next(calls, None)
            if following is None:
                more = False
                break
            key, call = following
            on_start(key)
            try:
                pending[executor.submit(call)] = following
            except Exception as refusal:
                more = more and not isinstance(refusal, BrokenExecutor)
                yield key, call, refusal
        done, _ = wait(pending, return_when=FIRST_COMPLETED) if pending else (set[Future[R_co]](), None)
        for future in done:
            key, call = pending.pop(future)
            problem = future.exception()
            more = more and not isinstance(problem, BrokenExecutor)
            if problem is None:
                yield key, call, future.result()
            elif isinstance(problem, Exception):
                yield key, call, problem
            else:
                raise problem
