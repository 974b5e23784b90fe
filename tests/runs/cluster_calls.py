"""Calls that workers of a cluster import by name."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snellen.runs.parcel import SentOnce


class Large(SentOnce):
    """Stands for a classifier of so many bytes; workers note in a folder that they opened it."""

    def __init__(self, size: int, folder: Path) -> None:
        self.content, self.folder = os.urandom(size), folder

    def payload(self) -> bytes:
        return pickle.dumps(self)

    def payload_name(self) -> str:
        return self.content[:16].hex()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        with (self.folder / f"opened-{os.getpid()}").open("a") as file:
            file.write("once\n")


@dataclass(frozen=True)
class Nap:
    """Sleeps, and says in which process."""

    seconds: float
    large: Large | None = None

    def __call__(self, on_pass=None) -> int:
        time.sleep(self.seconds)
        return os.getpid()


@dataclass(frozen=True)
class Setting:
    """Says what a variable of the environment is there."""

    name: str
    large: Large

    def __call__(self, on_pass=None) -> str | None:
        return os.environ.get(self.name)


@dataclass(frozen=True)
class End:
    """Ends its process."""

    def __call__(self, on_pass=None) -> None:
        os._exit(7)


@dataclass(frozen=True)
class Fail:
    """Raises an error that cannot be opened again where it is sent to."""

    def __call__(self, on_pass=None) -> None:
        raise PickyError("a", "b")


class PickyError(Exception):
    """Takes two arguments, of which pickling loses one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Closed:
    """Cannot be pickled."""

    def __call__(self, on_pass=None) -> None:
        return None

    def __getstate__(self) -> None:
        raise TypeError("this stays here")


def card_of(seconds: float) -> str:
    """Which graphics card this process was told to see."""
    time.sleep(seconds)
    return os.environ["CUDA_VISIBLE_DEVICES"]
