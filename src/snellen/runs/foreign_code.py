"""Code that a run folder names. It is executed only if the run was made on this machine, or the user trusts it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Literal

from snellen.errors import SnellenError
from snellen.files.seals import is_sealed, seal, untrusted_folder
from snellen.runs.record import RunRecord
from snellen.runs.store import Store
from snellen.runs.variant_training import DIGITS
from snellen.zoo.models import code_origin, executes_code, model_origin

Code = Literal["model", "recipe", "dask"]

_ACTIONS: Mapping[Code, str] = {
    "model": "load the model '{}'",
    "recipe": "call the recipe '{}'",
    "dask": "connect to the Dask scheduler '{}', which can send code",
}

MODEL: tuple[Code, ...] = ("model",)
"""Executed to load the images of a run again."""

EVERYTHING: tuple[Code, ...] = ("model", "recipe", "dask")
"""Executed to continue a run, beside unpickling its trained variants."""


def named_code(request: Mapping[str, Any] | None) -> dict[Code, str]:
    """The settings of a request that name code, or a server that sends code."""
    values = {name: str(value) for name in EVERYTHING if (value := (request or {}).get(name)) is not None}
    harmless = {"model": not executes_code(values.get("model", "")), "recipe": values.get("recipe") == DIGITS}
    return {name: value for name, value in values.items() if not harmless.get(name)}


def request_seal(request: Mapping[str, Any] | None) -> str | None:
    """The seal of the code that a request names; None where it names none, or this machine has no key."""
    code = named_code(request)
    return seal(_facts(code)) if code else None


def require_trust(store: Store, record: RunRecord, needed: Collection[Code], *, trust: bool) -> None:
    """Refuses to execute code that a run folder from elsewhere names; with `trust`, the folder is sealed and accepted.

    Args:
        store: The run folder.
        record: Its record.
        needed: What is about to be executed.
        trust: Whether the user trusts the folder.
    """
    code = named_code(record.request)
    actions = [text.format(code[name]) for name, text in _ACTIONS.items() if name in code and name in needed]
    unpickled = len(store.unsealed_variants()) if "recipe" in needed else 0
    if unpickled:
        actions.append(f"unpickle {unpickled} trained variant{'' if unpickled == 1 else 's'}")
    if not actions or (not unpickled and is_sealed(_facts(code), record.seal)):
        return
    if not trust:
        raise untrusted_folder(store.folder, actions)
    with suppress(SnellenError), store.writing():  # a folder that cannot be written is trusted this time only
        store.put_record(record.changed(seal=request_seal(record.request)))
        if unpickled:
            store.seal_variants()


def _facts(code: Mapping[Code, str]) -> list[object]:
    """What is sealed: each name with the path of its code, because the same name may mean another file elsewhere."""
    origins: dict[Code, Callable[[str], str]] = {"model": model_origin, "recipe": code_origin}
    return ["run", {name: [value, origins[name](value) if name in origins else ""] for name, value in code.items()}]
