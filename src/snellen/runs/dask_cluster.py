"""A Dask cluster as workers: how many there are now, what they need once, and whether they have the same Snellen."""

from __future__ import annotations

import inspect
import logging
import os
import platform
import threading
import time
import types
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cloudpickle
from distributed import Client, KilledWorker, WorkerPlugin

from snellen import __version__
from snellen.errors import SnellenError
from snellen.runs.dispatch import TRIES, Call
from snellen.runs.executors import Sent
from snellen.runs.parcel import Parcel, pack, place_payload, receive_in, run_parcel

PATIENCE = 60
"""Seconds that a Dask cluster may be without workers."""

LOOK = 2.0
"""Seconds between two looks at how many workers there are."""

REPLY = 30.0
"""Seconds that workers have to say what they have installed; who takes longer is asked when it gets work."""


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """The executor of a running Dask cluster."""
    try:
        client = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as problem:
        raise SnellenError(f"no Dask scheduler answers at '{address}' ({problem}); start one or leave out --dask") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is a sentence, not a traceback
    try:
        executor: Executor = client.get_executor(retries=TRIES)
        yield executor
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may be dead
            client.close(timeout=2)


class DaskCrew:
    """The workers of a Dask cluster, as many as there are at the moment; each process runs one call at a time."""

    elsewhere = True

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._client: Client = executor._client  # type: ignore[attr-defined]  # the only place where it is
        self._session = f"snellen-{uuid.uuid4().hex}"
        self._delivered: set[str] = set()
        self._ended = threading.Event()
        self._workers = 0
        self._missing_since: float | None = None

    def __enter__(self) -> DaskCrew:
        self._workers = len(self._client.nthreads())
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for name in self._delivered:
            _in_background(self._client.unregister_worker_plugin, name)

    def check(self, plugins: Sequence[Any]) -> list[str]:
        """Asks workers what they have installed."""
        return [*check_cluster(self._client, plugins), *thread_notes(self._client.nthreads())]

    def slots(self) -> int:
        """How many bundles run at a time; at least 1, because a cluster may start its first worker when it has work."""
        if self._workers:
            self._missing_since = None
        else:
            self._missing_since = self._missing_since or time.monotonic()
            if time.monotonic() - self._missing_since > PATIENCE:
                raise SnellenError(
                    f"the Dask cluster has had no workers for {PATIENCE} s; finished work is kept, and the same command "
                    "continues when there are workers"
                )
        return max(1, self._workers)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK):
            with suppress(Exception):  # a scheduler that is gone cancels all calls, which says it
                self._workers = len(self._client.nthreads())

    def submit(self, calls: Sequence[tuple[str, Call[Any]]], *, whole: bool = False) -> Sent:
        """Sends calls. What is sent once goes to the scheduler, which gives it to each worker, also to later ones."""
        content, shared = pack(calls)
        if whole:
            payloads = {name: item.payload() for name, item in shared.items()}
            return self._submitted(Parcel(content, None, payloads))
        for name, item in shared.items():
            plugin = f"{self._session}-{name}"
            if plugin not in self._delivered:
                self._delivered.add(plugin)
                # Not waited for: one worker that hangs would hold up all others. A call waits for what it needs.
                _in_background(self._client.register_plugin, Delivery(self._session, name, item.payload()), plugin)
        return self._submitted(Parcel(content, self._session, {}))

    def _submitted(self, parcel: Parcel) -> Sent:
        # Not pure: else Dask takes the same calls, sent again because a worker is slow or dead, for the first ones.
        return self._executor.submit(run_parcel, parcel, pure=False)  # type: ignore[call-arg]  # an option of Dask

    def is_loss(self, problem: BaseException) -> bool:
        """Whether workers died of a bundle; Dask tries it on several."""
        return isinstance(problem, KilledWorker)

    def revived(self) -> bool:
        """Never: a scheduler that is gone is started by whoever started it."""
        return False

    def suspects(self) -> Collection[str]:
        """Not known."""
        return ()


class Delivery(WorkerPlugin):  # type: ignore[misc]
    """Puts what is sent once into the worker's own folder."""

    def __init__(self, session: str, name: str, content: bytes) -> None:
        self._session, self._name, self._content = session, name, content

    def setup(self, worker: Any) -> None:
        """Called in each worker, also in those that join later."""
        place = Path(worker.local_directory)
        (place / self._session).mkdir(parents=True, exist_ok=True)
        place_payload(place / self._session, self._name, self._content)
        self._content = b""
        receive_in(place)

    def teardown(self, worker: Any) -> None:
        """Called at the end of the run."""
        Path(worker.local_directory, self._session, self._name).unlink(missing_ok=True)


def _in_background(function: Callable[..., Any], *arguments: Any) -> None:
    def call() -> None:
        with suppress(Exception):  # a call that lacks what was to be delivered says so
            function(*arguments)

    threading.Thread(target=call, daemon=True).start()


# What workers have installed ---------------------------------------------------------------------------------------------


def check_cluster(client: Client, plugins: Sequence[Any]) -> list[str]:
    """Refuses a cluster that could not compute this run, in one sentence; returns notes on what may differ.

    Args:
        client: Of the cluster.
        plugins: The methods and metrics, whose packages the workers need.
    """
    content = cloudpickle.dumps(list(plugins))
    answers: dict[str, Any] = {}

    def ask() -> None:
        with suppress(Exception):  # who does not answer is asked again when it gets work
            answers["scheduler"] = client.run_on_scheduler(_facts_by_value(), b"")
            answers.update(client.run(_facts_by_value(), content, on_error="return"))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(REPLY)
    return check_facts({place: facts for place, facts in dict(answers).items() if isinstance(facts, Mapping)})


def thread_notes(threads: Mapping[str, int]) -> list[str]:
    """A note where workers have several threads, of which they can use one; `threads` is by worker."""
    several = [count for count in threads.values() if count > 1]
    if not several:
        return []
    return [
        f"{len(several)} of {len(threads)} workers have several threads ({max(several)}), but a process computes one unit "
        "at a time: start workers with --nthreads 1 and as many processes as cores, or let torch use them with --threads"
    ]


def check_facts(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The same, from what each process says of itself."""
    here = _facts(b"")
    notes: list[str] = []
    for place, facts in answers.items():
        who = "the Dask scheduler" if place == "scheduler" else f"the Dask worker {place}"
        if facts["snellen"] is None:
            raise SnellenError(f"{who} has no Snellen; install version {__version__} there, or leave out --dask")
        if facts["snellen"] != here["snellen"]:
            raise SnellenError(
                f"{who} has Snellen {facts['snellen']}, but this is {here['snellen']}; install the same version there"
            )
        if facts["python"] != here["python"]:
            raise SnellenError(
                f"{who} runs Python {facts['python']}, but this is {here['python']}, and neither opens what the other "
                "packs; use the same minor version"
            )
        if facts["missing"]:
            raise SnellenError(f"{who} cannot import what a method or metric needs ({facts['missing']}); install it there")
    workers = {place: facts for place, facts in answers.items() if place != "scheduler"}
    others = sorted({str(facts["torch"]) for facts in workers.values()} - {str(here["torch"])})
    if others:
        notes.append(
            f"workers have torch {', '.join(others)}, but this is {here['torch']}: last digits of scores may differ between "
            "workers; install the same version for scores that are the same bits"
        )
    return notes


def _facts(content: bytes) -> dict[str, Any]:
    # A worker computes in a thread, and glibc keeps no block above 64 MB for threads but the first: page faults would take
    # as long as the passes. With large pages they take little. Torch reads this with its first tensor, so it is said here.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    missing = None
    try:
        from snellen import __version__ as snellen
    except ImportError:
        return {"snellen": None, "python": "", "torch": None, "missing": None}
    try:
        if content:
            cloudpickle.loads(content)
    except ImportError as problem:
        missing = str(problem)
    try:
        torch = version("torch")
    except Exception:
        torch = None
    return {
        "snellen": snellen,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": None if torch is None else ".".join(torch.split("+")[0].split(".")[:2]),
        "missing": missing,
    }


def _facts_by_value() -> Callable[[bytes], dict[str, Any]]:
    """The function as a copy that is sent with its code: a worker with another Snellen may not have this module."""
    plain = inspect.unwrap(_facts)
    copy = types.FunctionType(plain.__code__, {**plain.__globals__, "__name__": "__main__"}, "_facts")
    copy.__module__ = "__main__"
    return copy
