"""Parcels: calls on their way to a worker as bytes, without the classifiers, which a worker gets once."""

from __future__ import annotations

import io
import os
import pickle
import platform
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import cloudpickle

from snellen import __version__
from snellen.errors import no_exit
from snellen.runs.dispatch import Call, Timing
from snellen.types import Passes

R = TypeVar("R")

MOST_RECEIVED = 32
"""The most objects that stay open in a worker, such as the classifier and its variants."""

WAIT = 60.0
"""Seconds that a worker waits for an object that is on its way to it."""


class SentOnce(ABC):
    """Something large that many calls share, which a worker gets once."""

    @abstractmethod
    def payload(self) -> bytes:
        """The whole object, pickled."""

    @abstractmethod
    def payload_name(self) -> str:
        """What says that two of these are the same, as the name of a file."""


@runtime_checkable
class Timed(Protocol):
    """A result that says how long each of its parts took."""

    def seconds_by_kind(self) -> Mapping[Hashable, float]:
        """Seconds by kind of work, as in `Work.seconds`."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A call that leaves something to be done once after the last call of a bundle, before any result of it counts."""

    def close(self) -> None:
        """Does it, for all calls of the bundle."""
        ...


@dataclass(frozen=True)
class Parcel:
    """Some calls as bytes."""

    content: bytes
    """Pairs of a key and a call, pickled."""
    place: str | None
    """The folder where the worker finds what is sent once, which may be inside a folder of its own; None for nowhere."""
    payloads: Mapping[str, bytes]
    """By name, what is not sent once: nothing is known about how these workers could get it otherwise."""
    marks: bool = False
    """Whether the worker notes in this folder what it is running, so that its death can be put down to a call."""
    version: str = __version__

    def __len__(self) -> int:
        return len(self.content) + sum(map(len, self.payloads.values()))


@dataclass(frozen=True)
class CallOutcome:
    """What came of a call."""

    key: str
    timing: Timing
    content: bytes
    """The result or the exception, pickled."""

    def open(self) -> Any:
        """The result or the exception."""
        return pickle.loads(self.content)


@dataclass(frozen=True)
class ParcelRefusal:
    """Why a worker could not open a parcel; other parcels will not do better there."""

    sentence: str
    lacking: str | None = None
    """The name of an object that did not reach the worker; the sender can send it with the parcel."""


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Writes a name in place of everything that is sent once, and collects those."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.shared: dict[str, SentOnce] = {}

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, SentOnce):
            return None
        name = obj.payload_name()
        self.shared[name] = obj
        return name


def pack(calls: Sequence[tuple[str, Call[Any]]]) -> tuple[bytes, dict[str, SentOnce]]:
    """The calls with their keys as bytes, and by name the objects that are sent once.

    cloudpickle includes lambdas and classes of a script or notebook.
    """
    buffer = io.BytesIO()
    packer = _Packer(buffer)
    packer.dump(list(calls))
    return buffer.getvalue(), packer.shared


def place_payload(folder: Path, name: str, content: bytes) -> None:
    """Puts a payload where workers find it, whole or not at all."""
    path = folder / name
    if not path.exists():
        draft = folder / f".{name}-{os.getpid()}-{threading.get_ident()}"
        draft.write_bytes(content)
        draft.replace(path)


_RECEIVED: dict[str, Any] = {}
_ONE_AT_A_TIME = threading.RLock()
"""The classifier of a process, its cache and the settings of torch serve one call at a time."""

_OWN_FOLDER: list[Path] = []
"""Where this worker gets what is sent once; set by whoever brings it."""


def receive_in(folder: Path) -> None:
    """Says where this process finds what is sent once."""
    _OWN_FOLDER[:] = [folder]


class _LackingError(Exception):
    """An object that is sent once did not arrive."""


class _Opener(pickle.Unpickler):
    def __init__(self, parcel: Parcel) -> None:
        super().__init__(io.BytesIO(parcel.content))
        self._parcel = parcel

    def persistent_load(self, name: str) -> Any:
        if name not in _RECEIVED:
            content = self._parcel.payloads.get(name) or self._read(name)
            received = pickle.loads(content)
            while len(_RECEIVED) >= MOST_RECEIVED:
                del _RECEIVED[next(iter(_RECEIVED))]
            _RECEIVED[name] = received
        return _RECEIVED[name]

    def _read(self, name: str) -> bytes:
        deadline = time.monotonic() + WAIT
        while self._parcel.place is not None:
            with suppress(FileNotFoundError):
                return Path(*_OWN_FOLDER, self._parcel.place, name).read_bytes()
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)  # it is on its way
        raise _LackingError(name)


def run_parcel(parcel: Parcel) -> list[CallOutcome] | ParcelRefusal:
    """Runs the calls of a parcel in a worker, one after the other; a call that fails does not keep others from running."""
    if parcel.version != __version__:
        return ParcelRefusal(
            f"a worker on '{platform.node()}' has Snellen {__version__}, but this is {parcel.version}; "
            "install the same version for all workers"
        )
    with _ONE_AT_A_TIME:
        try:
            with no_exit("unpacking the model or a plug-in"):
                calls: list[tuple[str, Call[Any]]] = _Opener(parcel).load()
        except _LackingError as lacking:
            return ParcelRefusal("the classifier did not reach a worker", lacking=str(lacking))
        except ImportError as problem:
            return ParcelRefusal(
                f"a worker on '{platform.node()}' cannot import what the model or a plug-in needs ({problem}); "
                "install it for all workers, or start them where it can be imported"
            )
        mark = Path(parcel.place, f"running-{os.getpid()}") if parcel.marks and parcel.place else None
        return run_calls(calls, mark)


def run_calls(calls: Sequence[tuple[str, Call[Any]]], mark: Path | None = None) -> list[CallOutcome]:
    """Runs calls one after the other; `mark` is a file that says which runs."""
    outcomes = []
    for key, call in calls:
        if mark is not None:
            mark.write_text(key, encoding="utf-8")
        outcomes.append(_run(key, call))
    if isinstance(calls[-1][1], Closing):
        with _ONE_AT_A_TIME:
            calls[-1][1].close()
    if mark is not None:
        mark.unlink()
    return outcomes


def _run(key: str, call: Call[Any]) -> CallOutcome:
    started = time.perf_counter()
    result: Any
    try:
        result = run_here(call)
    except Exception as problem:
        result = problem
    parts = result.seconds_by_kind() if isinstance(result, Timed) else None
    return CallOutcome(key, Timing(time.perf_counter() - started, parts), _as_bytes(result))


def run_here(call: Call[R], on_pass: Callable[[Passes], None] | None = None) -> R:
    """Runs a call in this process; `sys.exit` of a model or plug-in fails that call only."""
    with _ONE_AT_A_TIME, no_exit("the model or a plug-in"):
        return call(on_pass)


def _as_bytes(result: Any) -> bytes:
    """A result or exception, pickled; what cannot be pickled, or not opened again, becomes an error that says so."""
    try:
        content = cloudpickle.dumps(result)
        if isinstance(result, Exception):  # one whose class takes other arguments than its message may not open
            pickle.loads(content)
    except Exception as problem:
        what = result if isinstance(result, Exception) else problem
        content = pickle.dumps(RuntimeError(f"{type(what).__name__}: {what}"))
    return bytes(content)
