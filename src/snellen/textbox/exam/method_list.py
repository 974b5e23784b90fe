"""Which methods stand in a field, with which settings, and which controls always do."""

from __future__ import annotations

import copy
import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from snellen.errors import SnellenError
from snellen.files.seals import is_sealed, seal
from snellen.methods.controls import CONTROLS
from snellen.plugins.registry import METHODS, MethodTraits, label, traits
from snellen.types import Method
from snellen.zoo.models import code_origin, find_object

PUBLISHED = (
    "gradient@kim2022", "smoothgrad@kim2022", "deconvnet@kim2022", "guided-backprop@kim2022", "deep-taylor@kim2022",
    "input-x-gradient@kim2022", "integrated-gradients@kim2022", "lrp-z@kim2022", "lrp-epsilon@kim2022",
    "lrp-alpha1-beta0@kim2022", "lrp-alpha2-beta1@kim2022", "deeplift-reveal-cancel@kim2022",
    "deeplift-rescale@kim2022", "grad-cam@kim2022", "deepshap",
)  # fmt: skip
"""The methods of Kim et al. 2022, in their order and with their settings, but for DeepSHAP: their thousand backgrounds take
three thousand passes per image, more than all other methods of a field together."""

REDUCED: Mapping[str, Mapping[str, Any]] = {
    "blur-ig": {"steps": 20},
    "extremal-perturbation": {"areas": (0.05,), "steps": 40},  # the smallest of its areas: 0.35 against 0.12 with all four
    "gradient-shap": {"samples": 10},
    "guided-ig": {"steps": 20},
    "kernel-shap": {"samples": 100},  # 0.83 against 0.91
    "lime": {"samples": 200},  # 0.89 against 0.99
    "lime-lasso": {"samples": 100},
    "meaningful-perturbation": {"steps": 40},  # 0.23 against 0.32
    "occlusion": {"overlap": 1},
    "rise": {"masks": 100},
    "sis": {"per_step": 200},
    "sis-removal": {"cells": 4},  # 0.30 against 0.60
    "smoothgrad": {"samples": 10},
    "vargrad": {"samples": 10},
    "xrai": {"steps": 4},  # 0.52 against 0.60
}
"""Settings other than the defaults, for methods of many passes: with these, all methods together take about 1,100 passes
forward and 340 backward per image, with their defaults 7,600 and 1,140. Integrated gradients and SmoothGrad keep their
published 64. Where the defaults gave another PAFL by more than .05, on six scenes of simple-fr, both are noted: such lines
say what the method does at this price, and naming it with its defaults says more."""

ALL = "all"


@dataclass(frozen=True)
class ListedMethod:
    """A method of a field, and how its name was written: that text finds it again."""

    method: Method
    text: str

    @property
    def label(self) -> str:
        """What tables call it."""
        return label(self.method)

    def record(self) -> dict[str, Any]:
        """As plain values; `changed` tells whether its settings are other than its defaults."""
        facts = traits(self.method)
        return {
            "label": self.label,
            "text": self.text,
            "control": facts.control,
            "changed": self.method != type(self.method)(),
            **({"seal": seal(_code(self.text))} if is_own(self.text) else {}),
        }


def method_list(wanted: Sequence[Any]) -> list[ListedMethod]:
    """The methods that these texts name, `all` among them, then the controls; each once."""
    texts = [text for one in wanted for text in (everything() if one == ALL else [one])]
    found: dict[str, ListedMethod] = {}
    for text in (*texts, *CONTROLS):
        one = line(text)
        found.setdefault(one.label, one)
    return sorted(found.values(), key=lambda one: one.text in CONTROLS)


def everything() -> list[str]:
    """The published methods, and all others that are registered: in affordable settings, controls apart."""
    published = {traits(METHODS.parse(text)).name for text in PUBLISHED}
    others = [name for name in METHODS if name not in published and not traits(METHODS[name]).control]
    return [*PUBLISHED, *(label(METHODS.build(name, REDUCED.get(name))) for name in others)]


def line(given: Any) -> ListedMethod:
    """A method from its name with or without settings, from `package.module:name`, or as it is."""
    if not isinstance(given, str):
        found = METHODS.parse(given)
        return ListedMethod(found, label(found))
    return ListedMethod(own_method(given) if is_own(given) else METHODS.parse(given), given)


def is_own(text: str) -> bool:
    """Whether a method is written as `package.module:name`, which is imported."""
    module, colon, _ = text.partition("(")[0].partition(":")
    return bool(colon and module)


def strange(methods: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts among the methods of a record that would be imported and that this user did not put there."""
    own = [method for method in methods if is_own(method["text"]) and code_origin(method["text"])]
    return [one["text"] for one in own if not is_sealed(_code(one["text"]), one.get("seal"))]


def _code(text: str) -> list[str]:
    return ["method", text, code_origin(text)]


def own_method(spec: str) -> Method:
    """The method that stands under `package.module:name`: an instance of a registered class, or such a class."""
    held = find_object(spec)
    facts = getattr(held, "traits", None)
    if not isinstance(facts, MethodTraits):
        raise SnellenError(
            f"'{spec}' is not a saliency method: it must be a frozen dataclass under snellen.plugins.registry.method, or an "
            f"instance of one, not {_kind(held)}"
        )
    found = held() if isinstance(held, type) else held
    return _version_by_source(METHODS.parse(found))


def _version_by_source(found: Method) -> Method:
    """The method, with a version that changes with the file that defines it, so that its older maps do not count then.

    Whoever writes a method runs it many times, and does not think of the version each time. The same holds for what it
    wraps, as in `SmoothGrad(of=Own())`; Snellen's own files do not count, for their versions are raised by hand.
    """
    sources = []
    for module in sorted({kind.__module__ for kind in _kinds(found) if kind.__module__.partition(".")[0] != "snellen"}):
        with suppress(OSError, TypeError, KeyError):
            sources.append(inspect.getsource(sys.modules[module]))
    if sources:
        found = copy.copy(found)  # the same class may stand elsewhere in the field, where its older maps are as good as ever
        version = int(hashlib.sha256("".join(sources).encode()).hexdigest()[:8], 16)
        object.__setattr__(found, "traits", replace(traits(found), version=version))
    return found


def _kinds(plugin: Any) -> list[type]:
    """The class of a plug-in, and those of the plug-ins among its settings."""
    held = [getattr(plugin, field.name) for field in fields(plugin)]
    return [type(plugin), *(kind for one in held if hasattr(one, "traits") for kind in _kinds(one))]


def _kind(held: Any) -> str:
    return f"the class {held.__name__}" if isinstance(held, type) else f"a {type(held).__name__}"
