"""What a function takes from outside of it, or an object holds, as text: with other values it is another method."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Mapping, Set
from contextlib import suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

MOST_OBJECTS = 10_000
"""Objects that are looked at; an object that holds more is described by the first ones."""


class HeldValues:
    """Describes values by their content; the same content gives the same text in every process."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, Any]] = {}
        """By identity, the number of an object, and the object, so that nothing else takes its identity."""

    def text(self, value: Any) -> str:
        """A value."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if id(value) in self._numbers:
            return f"again {self._numbers[id(value)][0]}"
        if len(self._numbers) >= MOST_OBJECTS:
            return "more"
        self._numbers[id(value)] = len(self._numbers), value
        return f"{type(value).__qualname__}({self._content(value)})"

    def of_function(self, function: FunctionType) -> str:
        """Its source and what it takes from outside: closure, defaults, and in a notebook what it uses of other cells."""
        values: dict[str, Any] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            with suppress(ValueError):  # a variable without a value yet
                values[name] = cell.cell_contents
        if is_of_notebook(function):
            names = sorted(_names_used(function.__code__))
            values |= {name: function.__globals__[name] for name in names if name in function.__globals__}
        return f"{source_of(function)} {self.text([values, function.__defaults__, function.__kwdefaults__])}"

    def of_class(self, kind: type) -> str:
        """What the functions of a class of a notebook, and of its base classes there, are and use."""
        functions = [value for value in vars(kind).values() if isinstance(value, FunctionType)]
        return self.text([*functions, *(base for base in kind.__mro__[1:] if is_of_notebook(base))])

    def _content(self, value: Any) -> str:
        if isinstance(value, Tensor | np.ndarray):
            return _digest(value)
        if isinstance(value, Mapping):
            return ", ".join(f"{self.text(key)}: {self.text(inner)}" for key, inner in value.items())
        if isinstance(value, list | tuple):
            return ", ".join(map(self.text, value))
        if isinstance(value, Set):
            return ", ".join(sorted(map(self.text, value)))
        if isinstance(value, functools.partial):
            return ", ".join(map(self.text, (value.func, value.args, value.keywords)))
        if isinstance(value, MethodType):
            return f"{self.text(value.__func__)}, {self.text(value.__self__)}"
        if isinstance(value, FunctionType):
            return f"{_name(value)} {self.of_function(value)}"
        if isinstance(value, type):
            return f"{_name(value)} {source_of(value)} {self.of_class(value)}" if is_of_notebook(value) else _name(value)
        if isinstance(value, ModuleType):
            return value.__name__
        fingerprint = getattr(value, "fingerprint", None)
        if isinstance(fingerprint, str):  # a classifier, whose cache says nothing about it
            return fingerprint
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
        attributes = getattr(value, "__dict__", {}) | {name: getattr(value, name) for name in slots if name != "__dict__"}
        return f"{self.text(type(value))} {self.text(attributes)}"


def is_of_notebook(value: FunctionType | type) -> bool:
    """Whether a function or class has no file, which would hold all that it uses."""
    return value.__module__ != "builtins" and not getattr(sys.modules.get(value.__module__), "__file__", None)


def _digest(values: Tensor | np.ndarray) -> str:
    with suppress(Exception):  # a tensor without values, or of a type that numpy does not have
        if isinstance(values, Tensor):
            values = values.detach().cpu()
            values = (values.float() if values.is_floating_point() else values).numpy()
        if values.dtype != object:
            return f"{values.shape} {values.dtype} {hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()}"
    return str(tuple(values.shape))


def _name(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def source_of(value: FunctionType | type) -> str:
    """The source of a function or class; of a function without source, or a lambda, what it was compiled to."""
    with suppress(OSError, TypeError):
        if value.__name__ != "<lambda>":  # whose source is the whole line, perhaps with other lambdas
            return inspect.getsource(value)
    return _compiled(value.__code__) if isinstance(value, FunctionType) else _name(value)


def _compiled(code: CodeType) -> str:
    constants = [_compiled(constant) if isinstance(constant, CodeType) else repr(constant) for constant in code.co_consts]
    return f"{code.co_code!r} {constants} {code.co_names}"


def _names_used(code: CodeType) -> set[str]:
    """Names that a function uses, functions inside it included."""
    return set(code.co_names).union(
        *(_names_used(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    )
