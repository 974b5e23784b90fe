"""Code that a run folder names. It is executed only if the run was made on this machine, or the user trusts it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Literal

from snellen.errors import SnellenError
from snellen.files.seals import is_sealed, seal, untrusted_folder
from snellen.plugins.named_code import code_origin, code_origins, holds_code
from snellen.plugins.registry import METHODS, METRICS, label, spec, traits
from snellen.runs.record import RunRecord
from snellen.runs.store import Store
from snellen.runs.variant_training import DIGITS
from snellen.zoo.models import executes_code, model_origin

Code = Literal["model", "recipe", "dask", "target", "methods", "metrics"]

_ACTIONS: Mapping[Code, str] = {
    "model": "load the model '{}'",
    "recipe": "call the recipe '{}'",
    "dask": "connect to the Dask scheduler '{}', which can send code",
    "target": "call the target '{}'",
    "methods": "execute the code of {}",
    "metrics": "execute the code of {}",
}

MODEL: tuple[Code, ...] = ("model",)
"""Executed to load the images of a run again."""

PLUGINS: tuple[Code, ...] = ("methods", "metrics")
"""Executed to explain images of a run again, beside the model."""

EVERYTHING: tuple[Code, ...] = ("model", "recipe", "dask", "target", "methods", "metrics")
"""Executed to continue a run, beside unpickling its trained variants."""


def named_code(request: Mapping[str, Any] | None) -> dict[Code, str]:
    """The settings of a request that name code, or a server that sends code."""
    values = {name: str(value) for name in _SINGLE if (value := (request or {}).get(name)) is not None}
    harmless = {
        "model": not executes_code(values.get("model", "")),
        "recipe": values.get("recipe") == DIGITS,
        "target": ":" not in values.get("target", ""),
    }
    several = {name: " and ".join(f"'{text}'" for text in _texts_with_code((request or {}).get(name))) for name in _SEVERAL}
    return {name: value for name, value in values.items() if not harmless.get(name)} | {
        name: texts for name, texts in several.items() if texts
    }


_SINGLE: tuple[Code, ...] = ("model", "recipe", "dask", "target")
_SEVERAL: tuple[Code, ...] = ("methods", "metrics")


def _texts_with_code(plugins: Any) -> list[Any]:
    """The methods or metrics of a request that name code, also within their settings."""
    listed = plugins if isinstance(plugins, list | tuple) else [plugins]
    return [plugin for plugin in listed if plugin is not None and holds_code(plugin)]


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


def load_plugins_of_run(store: Store, record: RunRecord, *, trust: bool) -> None:
    """Loads the methods and metrics of a run that are code of its user, so that they can be built by their names.

    Refuses code that has changed since: what it says of itself no longer holds for the maps of the run.
    """
    _refuse_hidden_code(store, record, trust=trust)
    request = record.request or {}
    if not set(PLUGINS) & set(named_code(request)):
        return
    require_trust(store, record, PLUGINS, trust=trust)
    before = record.spec.versions
    for name, registry in ((PLUGINS[0], METHODS), (PLUGINS[1], METRICS)):
        for text in _texts_with_code(request.get(name)):
            plugin = registry.parse(text, load=True)
            if before.get(label(plugin), traits(plugin).version) != traits(plugin).version:
                raise SnellenError(
                    f"{label(plugin)} has changed since '{store.folder}' was made; `snellen resume {store.folder}` computes "
                    "it again"
                )


def _refuse_hidden_code(store: Store, record: RunRecord, *, trust: bool) -> None:
    """Refuses methods whose settings name code, such as a class of captum, that the request does not name.

    The seal is of the request; what only the list of methods names was not written by Snellen.
    """
    if record.request is None or trust:  # without a request nothing is explained again on the command line
        return
    named = " ".join(map(str, _texts_with_code(record.request.get("methods"))))
    for method in record.spec.methods:
        usual = _code_in_settings(spec(METHODS.build(method.name))["params"]) if method.name in METHODS else []
        for text in _code_in_settings(method.params):
            if text not in usual and text not in named:
                raise untrusted_folder(store.folder, [_ACTIONS["methods"].format(f"'{text}'")])


def _code_in_settings(value: Any) -> list[str]:
    """The texts among settings that may name code; names of plug-ins are no such texts, because none is loaded by them."""
    if isinstance(value, Mapping):
        inner = value["params"] if set(value) == {"name", "params"} else value
        return [text for part in inner.values() for text in _code_in_settings(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _code_in_settings(part)]
    return [value] if isinstance(value, str) and holds_code(value) else []


def _facts(code: Mapping[Code, str]) -> list[object]:
    """What is sealed: each name with the path of its code, because the same name may mean another file elsewhere."""
    return ["run", {name: [value, _origin(name, value)] for name, value in code.items()}]


def _origin(name: Code, value: str) -> str:
    if name == "dask":
        return ""
    if name == "model":
        return model_origin(value)
    return code_origins(value) if name in _SEVERAL else code_origin(value)
