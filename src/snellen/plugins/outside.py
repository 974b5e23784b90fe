"""Methods and metrics that are not registered: named by a file or module, or passed as a class, instance or function.

A registered class keeps its traits. A plain function, or another callable, is wrapped in a frozen dataclass with cautious
traits. In both cases the version is a hash of the source, so that a changed function is another method and old maps of it
are not used again.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, get_args, get_type_hints

from torch import nn

from snellen.errors import SnellenError, short_repr
from snellen.plugins.held_values import HeldValues, is_of_notebook, source_of
from snellen.plugins.named_code import FILE
from snellen.plugins.traits import Attribute, MethodTraits, MetricTraits, Need
from snellen.plugins.wrapped_code import MethodOfFunction, MetricOfFunction, WrappedCode

OWN = "own"
"""What a plug-in without a citation cites."""
UNTESTED = "nothing yet"
"""On what the traits of a plain function were tested."""
UNKNOWN_UNDEFINED = "the function returns NaN"
"""When the score of a plain function is undefined."""
UNSTATED = "unstated"
"""Beside `Need`: a plain function may need anything."""


def needs_in_words(facts: MethodTraits) -> tuple[str, ...]:
    """What a method needs, for cards; a plain function that states nothing may look inside the model."""
    if is_unstated(facts) and not facts.needs:
        return (UNSTATED,)
    return tuple(sorted(facts.needs))


def is_unstated(facts: MethodTraits | MetricTraits) -> bool:
    """Whether the traits are those of a plain function, which states next to nothing about itself."""
    return facts.tested_on == UNTESTED if isinstance(facts, MethodTraits) else facts.undefined == UNKNOWN_UNDEFINED


def kind_of(value: Any, text: str) -> str:
    """Whether a user's class, instance or function is a "method" or a "metric", by its traits or its arguments."""
    stated = getattr(value, "traits", None)
    if isinstance(stated, MethodTraits | MetricTraits):
        return "method" if isinstance(stated, MethodTraits) else "metric"
    required = -1
    with suppress(ValueError, TypeError):
        parameters = list(inspect.signature(_called(value)).parameters.values())[1 if isinstance(value, type) else 0 :]
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = sum(item.kind in places and item.default is item.empty and item.name != "rng" for item in parameters)
    for kind, arguments in _ARGUMENTS.items():
        if required == len(arguments):
            return kind
    raise SnellenError(
        f"'{text}' is neither a method, which is called as {_SIGNATURES['method']}, nor a metric, called as "
        f"{_SIGNATURES['metric']}; it is {_type_name(value)}"
        + (f" with {required} required argument{'' if required == 1 else 's'}" if required >= 0 else "")
    )


def own_plugin(value: Any, kind: str, *, text: str = "") -> tuple[Any, bool]:
    """A class of plug-ins, or a plug-in, from what a user wrote or passed; and whether it is a registered one.

    Args:
        value: a class, an instance or a function.
        kind: "method" or "metric".
        text: how the user named it; "" for an object passed in Python.
    """
    expected = MethodTraits if kind == "method" else MetricTraits
    stated = getattr(value, "traits", None)
    if isinstance(stated, expected):
        return value, True
    owner = f"'{text}'" if text else short_repr(value)
    # Every class can be called, which makes an instance; the instances must be callable.
    is_callable = any("__call__" in vars(base) for base in value.__mro__) if isinstance(value, type) else callable(value)
    if stated is not None or isinstance(value, str | Mapping) or not is_callable:
        what = "a saliency method" if kind == "method" else "a metric"
        raise SnellenError(
            f"{owner} is not {what}: it must be a frozen dataclass under snellen.plugins.registry.{kind}, an instance of "
            f"one, or a function or class that is called as {_SIGNATURES[kind]}, not {_type_name(value)}"
        )
    return _wrapper(value, kind, owner, text), False


_SIGNATURES = {"method": "f(classifier, inputs, targets)", "metric": "m(case)"}
_ARGUMENTS = {"method": ("classifier", "inputs", "targets"), "metric": ("case",)}


def _called(value: Any) -> Any:
    """The function that states the arguments of a call; of a torch module this is not `__call__`."""
    if isinstance(value, nn.Module) or (isinstance(value, type) and issubclass(value, nn.Module)):
        return value.forward
    return value.__call__ if isinstance(value, type) else value


def _accepts_rng(function: Any) -> bool:
    with suppress(ValueError, TypeError):
        parameters = inspect.signature(function).parameters
        return "rng" in parameters or any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    return False


def _settings(function: Any, skipped: int, owner: str) -> dict[str, tuple[Any, Any]]:
    """By name, the type and default of each setting, after the arguments that every call passes."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return {}
    hints: dict[str, Any] = {}
    with suppress(Exception):
        hints = get_type_hints(getattr(function, "__init__") if isinstance(function, type) else function)  # noqa: B009
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    variable = any(item.kind is item.VAR_POSITIONAL for item in parameters)
    if len(positional) < skipped and not variable:
        raise SnellenError(
            f"{owner} takes {len(positional)} argument{'' if len(positional) == 1 else 's'}; a function is called with "
            f"{', '.join(_ARGUMENTS['method'] if skipped > 1 else _ARGUMENTS['metric'])}"
        )
    settings: dict[str, tuple[Any, Any]] = {}
    for item in parameters:
        if item in positional[:skipped] or item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD) or item.name == "rng":
            continue
        if item.default is item.empty:
            called = ", ".join(_ARGUMENTS["method" if skipped > 1 else "metric"]) if skipped else ""
            raise SnellenError(
                f"{owner}: the argument '{item.name}' needs a default, because "
                + (
                    f"a {'method' if skipped > 1 else 'metric'} is called with {called}"
                    if called
                    else "settings may leave it out"
                )
            )
        default = tuple(item.default) if isinstance(item.default, list) else item.default
        if not _is_plain(default):
            raise SnellenError(
                f"{owner}: the default of '{item.name}' must be a number, a word, true, false, none or a list of them, not "
                f"{short_repr(default)}; keep it inside the function"
            )
        settings[item.name] = hints.get(item.name, _hint_of(default)), default
    return settings


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _hint_of(default: Any) -> Any:
    if default is None:
        return str | None
    if isinstance(default, tuple):
        return tuple[_hint_of(default[0]) if default else str, ...]  # type: ignore[misc]
    return type(default)


def _wrapper(value: Any, kind: str, owner: str, text: str) -> type:
    """A frozen dataclass whose calls go to the user's code.

    Its fields are the settings: the arguments of a class's constructor, or those of a function that have a default.
    """
    settings = _settings(value, 0 if isinstance(value, type) else len(_ARGUMENTS[kind]), owner)
    name = _name_of(value, text)
    with_rng = _accepts_rng(_called(value))
    wrapper = dataclasses.make_dataclass(
        re.sub(r"\W", "_", name),
        [(key, hint, dataclasses.field(default=default)) for key, (hint, default) in settings.items()],
        bases=(MethodOfFunction if kind == "method" else MetricOfFunction,),
        frozen=True,
        namespace={
            "code": (value,),
            "with_rng": with_rng,
            "__doc__": _summary_of(value, name),
            "__module__": _module_name(value),
        },
    )  # cloudpickle sends a class by value where its module does not have it by this name
    wrapper.traits = (_method_traits if kind == "method" else _metric_traits)(value, name, owner)  # type: ignore[attr-defined]
    return wrapper


def _method_traits(value: Any, name: str, owner: str) -> MethodTraits:
    return MethodTraits(
        name=name,
        cite=OWN,
        summary=_summary_of(value, name),
        signed=True,
        needs=_stated_needs(value, owner),
        version=_source_version([value]),
        tested_on=UNTESTED,
    )


def _stated_needs(value: Any, owner: str) -> frozenset[Need]:
    """The attribute `needs` of a function or class."""
    needs = getattr(value, "needs", ())
    if isinstance(needs, str) or not set(needs) <= set(get_args(Need)):
        raise SnellenError(f"{owner}: needs must be a set of {', '.join(get_args(Need))}, not {short_repr(needs)}")
    return frozenset(needs)


def _metric_traits(value: Any, name: str, owner: str) -> MetricTraits:
    """Cautious traits; the direction, the bounds and the attribute are read from attributes of the function."""
    attribute: Any = getattr(value, "attribute", "input-sensitivity")
    if attribute not in get_args(Attribute):
        raise SnellenError(
            f"{owner}: attribute must be one of {', '.join(get_args(Attribute))}, not {short_repr(attribute)}"
        )
    low, high = getattr(value, "bounds", (-float("inf"), float("inf")))
    return MetricTraits(
        name=name,
        cite=OWN,
        summary=_summary_of(value, name),
        attribute=attribute,
        higher_is_better=bool(getattr(value, "higher_is_better", True)),
        bounds=(float(low), float(high)),
        needs=_stated_needs(value, owner),
        undefined=UNKNOWN_UNDEFINED,
        version=_source_version([value]),
    )


def _name_of(value: Any, text: str) -> str:
    """The file or module, and the name in it: `mine.py:f`."""
    if text:
        module, _, name = text.rpartition(":")
        file = re.sub(r"[^\w.+-]", "-", re.split(r"[/\\]", module)[-1])  # so that it is read back without quotes
        return f"{file if module.endswith(FILE) else module}:{name}"
    named = value if isinstance(value, type | FunctionType) else type(value)
    return f"{named.__module__}:{re.sub('[^A-Za-z0-9_.]', '', named.__qualname__)}"


def _module_name(value: Any) -> str:
    return str((value if isinstance(value, type | FunctionType) else type(value)).__module__)


def _summary_of(value: Any, name: str) -> str:
    text = inspect.getdoc(value if isinstance(value, type | FunctionType) else type(value)) or ""
    is_signature = isinstance(value, type) and text.startswith(f"{value.__name__}(")
    first = " ".join(text.split("\n\n")[0].split())
    return first if first and not is_signature else f"{name}, which has no docstring."


_OWN_CLASSES: set[type] = set()
"""Registered classes that a user named by a file or module, not by their names."""


def mark_as_own(plugin: Any) -> None:
    """Lets the versions of a registered class, or of the classes of an instance, follow their files from now on."""
    kinds = [plugin] if isinstance(plugin, type) else _plugin_types(plugin)
    _OWN_CLASSES.update(kind for kind in kinds if kind.__module__.partition(".")[0] != "snellen")


def _is_own(kind: type) -> bool:
    """Whether the version of a registered class follows its source: its file was named, or it is of a script or notebook."""
    return kind in _OWN_CLASSES or kind.__module__ == "__main__"


def with_source_version(plugin: Any) -> Any:
    """The plug-in; with a version that follows the user's files if it, or a plug-in among its settings, comes from there.

    Authors run a plug-in many times, and do not raise its version each time. Older maps are then not used, also of
    `smoothgrad(of=mine.py:f)`. Versions of what is installed and named by its name are raised by hand.
    """
    own = [kind for kind in _plugin_types(plugin) if _is_own(kind) or issubclass(kind, WrappedCode)]
    if not own or isinstance(plugin, WrappedCode):
        return plugin
    wrapped = [kind.traits.version for kind in own if issubclass(kind, MethodOfFunction | MetricOfFunction)]
    version = _source_version([kind for kind in own if _is_own(kind)], wrapped)
    plugin = copy.copy(plugin)  # the same object may be listed elsewhere, where its older maps are still good
    object.__setattr__(plugin, "traits", dataclasses.replace(plugin.traits, version=version))
    return plugin


def refuse_equal_names(plugins: Sequence[Any]) -> None:
    """Refuses different functions or classes of a user that have one name, which tables could not tell apart."""
    sources: dict[str, int] = {}
    for kind in (kind for plugin in plugins for kind in _plugin_types(plugin)):
        if issubclass(kind, WrappedCode) or _is_own(kind):
            name: str = kind.traits.name  # type: ignore[attr-defined]
            source = kind.traits.version if issubclass(kind, WrappedCode) else id(kind)  # type: ignore[attr-defined]
            if sources.setdefault(name, source) != source:
                raise SnellenError(
                    f"two different plug-ins are both called '{name}' in tables and reports, which name no folders; rename "
                    "one of the functions, classes or files"
                )


def _plugin_types(plugin: Any) -> list[type]:
    """The class of a plug-in, and those of the plug-ins among its settings."""
    values = (
        [getattr(plugin, field.name) for field in dataclasses.fields(plugin)] if dataclasses.is_dataclass(plugin) else []
    )
    return [type(plugin), *(inner for value in values if hasattr(value, "traits") for inner in _plugin_types(value))]


def _source_version(values: list[Any], wrapped: Sequence[int] = ()) -> int:
    """A number from the source of the files that define these functions and classes, and from versions of wrapped ones.

    What instances and closures hold counts too. In a notebook there is no file: there the source of the function or class
    counts, and what it takes from other cells.
    """
    sources = set(map(str, wrapped))
    for value in values:
        named = value if isinstance(value, type | FunctionType) else type(value)
        module = sys.modules.get(named.__module__)
        text = getattr(module, "__snellen_source__", None)
        if text is None and getattr(module, "__file__", None):
            with suppress(OSError, TypeError):
                text = inspect.getsource(module)  # type: ignore[arg-type]
        sources.add(source_of(named) if text is None else text)
        sources.add(_outer_values(value))
    return int(hashlib.sha256("\0".join(sorted(sources)).encode()).hexdigest()[:8], 16)


def _outer_values(value: Any) -> str:
    """What a function or class takes from outside of it, or what an instance holds."""
    held = HeldValues()
    if isinstance(value, FunctionType):
        return held.of_function(value)
    if isinstance(value, type):
        return held.of_class(value) if is_of_notebook(value) else ""
    return held.text(value)


def _type_name(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
