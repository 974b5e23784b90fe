"""Plug-ins by name. A decorator states each trait once; the command line, docs and cards read it from here."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import inspect
import json
import math
import re
import threading
import types
import typing
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, Literal, TypeVar

from snellen.errors import SnellenError, nearest, no_exit, short_repr, shorten
from snellen.files.documents import MOST_WHOLE, is_unicode
from snellen.plugins import ENTRY_POINTS, named_code, outside
from snellen.plugins.notation import read_plugin, write_value
from snellen.plugins.traits import (
    LAYERS,
    TESTED_ON,
    Attribute,
    ConditionTraits,
    Family,
    FillTraits,
    MethodTraits,
    MetricTraits,
    Need,
    OutputNeed,
    Range,
    Test,
    TraitEvidence,
)
from snellen.types import Condition, Fill, MadeOfTruth, Method, Metric

__all__ = [
    "CONDITIONS",
    "FILLS",
    "METHODS",
    "METRICS",
    "Attribute",
    "ConditionTraits",
    "Family",
    "FillTraits",
    "MethodTraits",
    "MetricTraits",
    "Need",
    "OutputNeed",
    "Registry",
    "Test",
    "TraitEvidence",
    "UnknownNameError",
    "condition",
    "fill",
    "label",
    "method",
    "metric",
    "spec",
    "text_of",
    "traits",
]

T = TypeVar("T")


class Registry(Mapping[str, type[T]], Generic[T]):
    """Plug-in classes by name; builds plug-ins from names and settings.

    Args:
        kind: what the plug-ins are called in messages, such as "method".
        required: the functions that a class must define.
    """

    def __init__(self, kind: str, *required: str) -> None:
        self.kind = kind
        self.required = required
        self._classes: dict[str, type[T]] = {}
        self._outside: dict[str, type[T]] = {}
        """Wrapped functions and classes that a user named by a file or module, or passed; they are not listed."""

    def __getitem__(self, name: str) -> type[T]:
        load_plugins()
        if name in self._outside:
            return self._outside[name]
        if name not in self._classes:
            file = f"; name what is in the file: {shorten(name)}:f" if name.endswith(named_code.FILE) else ""
            raise UnknownNameError(f"unknown {self.kind} '{shorten(name)}'{file or nearest(name, self._classes)}")
        return self._classes[name]

    def __contains__(self, name: object) -> bool:
        load_plugins()
        return name in self._classes or name in self._outside

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter(sorted(name for name, plugin in self._classes.items() if _is_listed(plugin)))

    def __len__(self) -> int:
        load_plugins()
        return sum(map(_is_listed, self._classes.values()))

    def add(self, name: str, plugin: type[T]) -> None:
        """Registers a class; raises SnellenError with the rule for plug-ins that it breaks."""
        where = f"{self.kind} '{name}'"
        if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\+\+)?", name):
            raise SnellenError(f"{where}: a name is lower-case words joined by hyphens")
        if name in self._classes and self._classes[name].__qualname__ != plugin.__qualname__:
            raise SnellenError(f"{where} is registered twice; choose another name")
        if not dataclasses.is_dataclass(plugin) or not plugin.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise SnellenError(f"{where} must be a frozen dataclass")
        for field in dataclasses.fields(plugin):
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise SnellenError(f"{where}: the field '{field.name}' needs a default")
        if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
            raise SnellenError(f"{where} must define {', '.join(missing)}")
        for function in self.required:
            if not callable(getattr(plugin, function, None)):
                raise SnellenError(f"{where} has no {function}, which snellen.types.{self.kind.capitalize()} requires")
        self._classes[name] = plugin
        try:
            json.dumps(spec(plugin()))
        except (TypeError, ValueError) as problem:
            del self._classes[name]
            raise SnellenError(f"{where}: its settings must survive JSON, but {problem}") from None

    def build(self, name: str, params: Mapping[str, Any] | None = None, *, load: bool = False) -> T:
        """The plug-in of this name with these settings; unknown settings and wrong types are refused by name.

        With `load`, a name such as `mine.py:MyMethod` executes that file, and so may those of plug-ins in the settings.
        """
        if load and self.kind in ("method", "metric") and named_code.names_code(name):
            return self._build_outside(named_code.find_object(name, files=True), params or {}, name)
        name, _, preset = name.partition("@")
        plugin = self[name]
        presets: Mapping[str, Any] = getattr(plugin.traits, "presets", {})  # type: ignore[attr-defined]
        if preset and preset not in presets:
            available = ", ".join(presets) or "none"
            raise SnellenError(
                f"{self.kind} '{name}' has no preset '{preset}'{nearest(preset, presets)} (it has: {available})"
            )
        chosen = presets.get(preset, {})
        if isinstance(chosen, str):
            other, settings = read_plugin(chosen)
            return self.build(other, {**settings, **(params or {})}, load=load)
        fields = {field.name: field for field in dataclasses.fields(plugin)}  # type: ignore[arg-type]
        hints = _hints(plugin)  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for key, value in {**chosen, **(params or {})}.items():
            if key not in fields:
                available = ", ".join(fields) or "none"
                hint = nearest(key, fields)
                raise SnellenError(f"{self.kind} '{name}' has no setting '{shorten(key)}'{hint} (it has: {available})")
            values[key] = _coerce(hints[key], value, f"{self.kind} '{name}': {key}", load=load)
        try:
            return outside.with_source_version(plugin(**values))  # type: ignore[no-any-return]
        except ValueError as problem:
            raise SnellenError(f"{self.kind} '{name}': {problem}") from None

    def _build_outside(self, value: Any, params: Mapping[str, Any], text: str = "") -> T:
        """The plug-in of a class, an instance or a function that a user named by `text`, or passed."""
        plugin, is_registered = outside.own_plugin(value, self.kind, text=text)
        if not is_registered:
            self._outside[plugin.traits.name] = plugin
            return self.build(plugin.traits.name, params)
        if text:
            outside.mark_as_own(plugin)
        if isinstance(plugin, type):
            if text:  # another file may have registered a class of the same name since
                self._classes[plugin.traits.name] = plugin  # type: ignore[attr-defined]
            if not params and not text:
                return outside.with_source_version(plugin())  # type: ignore[no-any-return]
            return self.build(plugin.traits.name, params)  # type: ignore[attr-defined]
        if params:
            raise SnellenError(f"'{text}' is an instance with settings of its own; name its class, or leave out {params}")
        return outside.with_source_version(plugin)  # type: ignore[no-any-return]

    def parse(self, text: str | Mapping[str, Any] | T | type[T] | Callable[..., Any], *, load: bool = False) -> T:
        """A plug-in from `rise`, `rise(masks=500)`, `rise@petsiuk2018`, `{"name": "rise", "params": {...}}`, or itself.

        A class and a plain function become a plug-in too. With `load`, a text such as `mine.py:MyMethod` or
        `package.module:function` is imported, which executes that code: for texts that the user wrote, never for texts
        from a run folder.

        >>> METHODS.parse("smoothgrad(of=grad-cam, samples=8)")
        SmoothGrad(of=GradCam(layer=None), samples=8, spread=0.15)
        """
        if isinstance(text, str):
            name, settings = read_plugin(text)
            return self.build(name, settings, load=load)
        if isinstance(text, Mapping):
            params = text.get("params") or {}
            if not isinstance(text.get("name"), str) or not isinstance(params, Mapping) or set(text) - {"name", "params"}:
                raise SnellenError(f"a {self.kind} is written as a name or as {{name, params}}, not {short_repr(text)}")
            settings = {str(key): value for key, value in params.items()}
            return self.build(text["name"], settings, load=load)
        if hasattr(text, "traits") and not isinstance(text, type):
            return outside.with_source_version(text)  # type: ignore[no-any-return]
        if self.kind not in ("method", "metric") or not callable(text):
            raise SnellenError(f"a {self.kind} is written as a name, as in rise or rise(masks=500), not {short_repr(text)}")
        return self._build_outside(text, {})


def _is_listed(plugin: type) -> bool:
    return bool(getattr(plugin.traits, "listed", True))  # type: ignore[attr-defined]


class UnknownNameError(SnellenError, KeyError):
    """A name that is not registered; a KeyError too, as a Mapping must raise."""


METHODS: Registry[Method] = Registry("method", "__call__", "passes")
METRICS: Registry[Metric] = Registry("metric", "__call__", "passes")
FILLS: Registry[Fill] = Registry("fill", "__call__")
CONDITIONS: Registry[Condition] = Registry("condition", "__call__")

_BY_HINT: dict[Any, Registry[Any]] = {Method: METHODS, Metric: METRICS, Fill: FILLS, Condition: CONDITIONS}


def method(
    name: str,
    *,
    cite: str,
    family: Family = "other",
    signed: bool = False,
    complete: TraitEvidence | bool = False,
    class_specific: bool = True,
    deterministic: bool = True,
    control: bool = False,
    needs: set[Need] | frozenset[Need] = frozenset(),
    needs_output: OutputNeed | None = None,
    implementation_invariant: TraitEvidence | bool = False,
    at_most: bool = False,
    caveats: Mapping[str, str] | None = None,
    presets: Mapping[str, Mapping[str, Any] | str] | None = None,
    ranges: Mapping[str, Range] | None = None,
    version: int = 1,
    tested_on: str = TESTED_ON,
    listed: bool = True,
) -> Callable[[type[T]], type[T]]:
    """Registers a frozen dataclass as a saliency method; `MethodTraits` documents the traits.

    Args:
        name: how settings and the command line call it.
        family: what the maps are computed from; a control always has the family "control".
        presets: settings by the key of the work that used them, plus a word after a hyphen where one work used several:
            `rise@petsiuk2018`. A text in place of settings names the method that the work really ran under this name.
        ranges: by setting, the values worth trying besides the default, as written in settings; or `LAYERS`, which stands
            for earlier layers of the classifier.
    """

    def register(plugin: type[T]) -> type[T]:
        if control and family not in ("other", "control"):
            raise SnellenError(f"method '{name}' is a control, so its family must not be '{family}'")
        if "truth" in needs and not isinstance(plugin, MadeOfTruth):
            raise SnellenError(f"method '{name}' needs the truth, which no method sees; a positive control defines maps_of")
        _check_ranges(name, plugin, ranges or {})
        plugin.traits = MethodTraits(  # type: ignore[attr-defined]
            name=name,
            cite=_check_cite(name, cite),
            summary=_summary(name, plugin),
            family="control" if control else family,
            signed=signed,
            complete=complete,
            class_specific=class_specific,
            deterministic=deterministic,
            control=control,
            needs=frozenset(needs),
            needs_output=needs_output,
            implementation_invariant=implementation_invariant,
            at_most=at_most,
            caveats=dict(caveats or {}),
            presets=dict(presets or {}),
            ranges=dict(ranges or {}),
            version=version,
            tested_on=tested_on,
            listed=listed and "truth" not in needs,  # a positive control is no method to choose
        )
        METHODS.add(name, plugin)  # type: ignore[arg-type]
        return plugin

    return register


def metric(
    name: str,
    *,
    cite: str,
    attribute: Attribute,
    higher_is_better: bool,
    bounds: tuple[float, float],
    rank_only: bool = False,
    needs: set[Need] | frozenset[Need] = frozenset(),
    needs_output: OutputNeed | None = None,
    undefined: str = "never",
    version: int = 1,
    test: Test | None = None,
    formula: str = "",
    reading: str = "",
    caveats: Mapping[str, str] | None = None,
    presets: Mapping[str, Mapping[str, Any] | str] | None = None,
    tolerance: float | None = None,
    optional_needs: set[Need] | frozenset[Need] = frozenset(),
) -> Callable[[type[T]], type[T]]:
    """Registers a frozen dataclass as a metric; `MetricTraits` documents the traits."""

    def register(plugin: type[T]) -> type[T]:
        plugin.traits = MetricTraits(  # type: ignore[attr-defined]
            name=name,
            cite=_check_cite(name, cite),
            summary=_summary(name, plugin),
            attribute=attribute,
            higher_is_better=higher_is_better,
            bounds=bounds,
            rank_only=rank_only,
            needs=frozenset(needs),
            needs_output=needs_output,
            undefined=undefined,
            version=version,
            test=test,
            formula=formula,
            reading=reading,
            caveats=dict(caveats or {}),
            presets=dict(presets or {}),
            tolerance=tolerance,
            optional_needs=frozenset(optional_needs),
        )
        METRICS.add(name, plugin)  # type: ignore[arg-type]
        return plugin

    return register


def fill(name: str, *, space: Literal["pixels", "inputs"]) -> Callable[[type[T]], type[T]]:
    """Registers a frozen dataclass as a fill (see `FillTraits`)."""

    def register(plugin: type[T]) -> type[T]:
        plugin.traits = FillTraits(name, _summary(name, plugin), space)  # type: ignore[attr-defined]
        FILLS.add(name, plugin)  # type: ignore[arg-type]
        return plugin

    return register


def condition(name: str, *, cite: str, partner: bool = False, version: int = 1) -> Callable[[type[T]], type[T]]:
    """Registers a frozen dataclass as a condition (see `ConditionTraits`)."""

    def register(plugin: type[T]) -> type[T]:
        plugin.traits = ConditionTraits(  # type: ignore[attr-defined]
            name=name, cite=_check_cite(name, cite), summary=_summary(name, plugin), partner=partner, version=version
        )
        CONDITIONS.add(name, plugin)  # type: ignore[arg-type]
        return plugin

    return register


def traits(plugin: Any) -> Any:
    """The traits that the decorator attached to a plug-in or its class."""
    return plugin.traits


def spec(plugin: Any) -> dict[str, Any]:
    """A plug-in as JSON: its name and all of its settings, nested plug-ins included."""
    params = {field.name: _encode(getattr(plugin, field.name)) for field in dataclasses.fields(plugin)}
    return {"name": plugin.traits.name, "params": params}


@cache
def _hints(plugin: type) -> dict[str, Any]:
    return typing.get_type_hints(plugin)


def label(plugin: Any) -> str:
    """The shortest text that builds this plug-in again: a preset, or its name and the settings that were changed.

    >>> label(METHODS.build("gradient"))
    'gradient'
    """
    labelled = _labels.get(id(plugin))
    if labelled is not None and labelled[0]() is plugin:
        return labelled[1]
    text, place = _label_of(plugin), id(plugin)
    with contextlib.suppress(TypeError):  # a class with slots may have no weak references
        _labels[place] = weakref.ref(plugin, lambda _: _labels.pop(place, None)), text
    return text


_labels: dict[int, tuple[weakref.ref[Any], str]] = {}
"""Labels of living plug-ins, which are frozen; by identity, because 1 and 1.0 are equal settings with two labels."""


def _label_of(plugin: Any) -> str:
    default = type(plugin)()
    changed = [
        f"{field.name}={text_of(getattr(plugin, field.name))}"
        for field in dataclasses.fields(plugin)
        if getattr(plugin, field.name) != getattr(default, field.name)
    ]
    name: str = plugin.traits.name
    if not changed:
        return name
    for preset in getattr(plugin.traits, "presets", {}):
        registry: Registry[Any] = METRICS if isinstance(plugin.traits, MetricTraits) else METHODS
        if registry.build(f"{name}@{preset}") == plugin:
            return f"{name}@{preset}"
    return f"{name}({', '.join(changed)})"


def _encode(value: Any) -> Any:
    if hasattr(value, "traits"):
        return spec(value)
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} does not")


def text_of(value: Any) -> str:
    """A setting as it would be typed on the command line."""
    if hasattr(value, "traits"):
        return label(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(text_of(item) for item in value) + "]"
    return write_value(value)


def _coerce(hint: Any, value: Any, where: str, *, load: bool = False) -> Any:
    """The value converted to the type of the field; raises SnellenError where it cannot be."""
    if hint in _BY_HINT:
        if not isinstance(value, str | Mapping) and not hasattr(value, "traits"):
            raise SnellenError(f"{where} must be the name of a {_BY_HINT[hint].kind}, not {short_repr(value)}")
        return _BY_HINT[hint].parse(value, load=load)
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise SnellenError(f"{where} must be a number of fewer digits")
    if isinstance(value, float) and not math.isfinite(value):
        raise SnellenError(f"{where} must be a finite number, not {value}")
    if isinstance(value, str) and not is_unicode(value):
        raise SnellenError(f"{where} must be text, not {short_repr(value)}")
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in options:
            raise SnellenError(f"{where} must be one of {', '.join(map(str, options))}, not {short_repr(value)}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        return _coerce(next(option for option in options if option is not type(None)), value, where, load=load)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SnellenError(f"{where} must be a list, not {short_repr(value)}")
        return tuple(_coerce(options[0], item, where, load=load) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # a layer may be called 7
    if isinstance(value, hint) and not (hint in (int, float) and isinstance(value, bool)):
        return value
    expected = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}.get(hint, str(hint))
    raise SnellenError(f"{where} must be {expected}, not {short_repr(value)}")


def _check_cite(name: str, cite: str) -> str:
    if not cite:
        raise SnellenError(f"'{name}' must cite the work that defines it")
    return cite


def _check_ranges(name: str, plugin: type, ranges: Mapping[str, Range]) -> None:
    fields = [field.name for field in dataclasses.fields(plugin)] if dataclasses.is_dataclass(plugin) else []
    for key, values in ranges.items():
        if key not in fields:
            raise SnellenError(f"method '{name}' gives a range for '{key}', which is no setting of it{nearest(key, fields)}")
        if values != LAYERS and (not isinstance(values, tuple) or not values):
            raise SnellenError(f"method '{name}': the range of '{key}' must be a tuple of values, not {values!r}")


def _summary(name: str, plugin: type) -> str:
    text = plugin.__dict__.get("__doc__") or ""
    if not text.strip() or text.startswith(f"{plugin.__name__}("):  # a dataclass without a docstring gets its signature
        raise SnellenError(f"'{name}' needs a docstring that says in one sentence what its number means")
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


_BUILT_IN = ("snellen.images.conditions", "snellen.maps.fills", "snellen.methods", "snellen.metrics")

_loading = threading.RLock()
_loaded = False


def load_plugins() -> None:
    """Imports the built-in plug-ins and those of other packages (entry-point group `snellen.plugins`), once."""
    global _loaded
    with _loading:
        if _loaded:
            return
        _loaded = True
        for module in _BUILT_IN:
            importlib.import_module(module)
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
            try:
                with no_exit("it"):
                    point.load()
            except Exception as problem:
                warnings.warn(f"the plug-in '{point.name}' ({point.value}) could not be loaded: {problem}", stacklevel=3)
