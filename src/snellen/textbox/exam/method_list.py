"""The methods of an exam with their settings; controls are always among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from snellen.files.seals import is_sealed, seal
from snellen.methods.controls import CONTROLS
from snellen.plugins.named_code import code_origins, holds_code
from snellen.plugins.outside import refuse_equal_names
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs.requirements import refuse_positive_controls
from snellen.types import Method

PUBLISHED = (
    "gradient@kim2022", "smoothgrad@kim2022", "deconvnet@kim2022", "guided-backprop@kim2022", "deep-taylor@kim2022",
    "input-x-gradient@kim2022", "integrated-gradients@kim2022", "lrp-z@kim2022", "lrp-epsilon@kim2022",
    "lrp-alpha1-beta0@kim2022", "lrp-alpha2-beta1@kim2022", "deeplift-reveal-cancel@kim2022",
    "deeplift-rescale@kim2022", "grad-cam@kim2022", "deepshap",
)  # fmt: skip
"""The methods of Kim et al. 2022, in their order and with their settings, but for DeepSHAP: their thousand backgrounds take
three thousand passes per image, more than all other methods together."""

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
published 64. Where the defaults gave another PAFL by more than .05, on six scenes of simple-fr, both are noted: such
scores hold for these settings only."""

ALL = "all"


class StoredMethod(TypedDict):
    """A method of an exam, as its record holds it."""

    label: str
    text: str
    """As the user wrote it."""
    control: bool
    changed: bool
    """Whether its settings differ from its defaults."""
    seal: NotRequired[str | None]
    """Shows that this user named code; only methods that are code have it."""


@dataclass(frozen=True)
class ListedMethod:
    """A method of an exam, and the text that names it, from which it can be made again."""

    method: Method
    text: str
    """As the user wrote it."""

    @property
    def label(self) -> str:
        """Its name in tables."""
        return label(self.method)

    def record(self) -> StoredMethod:
        """The method as stored."""
        stored = StoredMethod(
            label=self.label,
            text=self.text,
            control=traits(self.method).control,
            changed=self.method != type(self.method)(),
        )
        if holds_code(self.text):
            stored["seal"] = seal(_seal_text(self.text))
        return stored


def method_list(names: Sequence[Any]) -> list[ListedMethod]:
    """The methods that these texts name, `all` among them, then the controls; each once."""
    texts = [text for name in names for text in (all_names() if name == ALL else [name])]
    listed = [listed_method(text) for text in (*texts, *CONTROLS)]
    refuse_equal_names([method.method for method in listed])
    methods: dict[str, ListedMethod] = {}
    for method in listed:
        methods.setdefault(method.label, method)
    return sorted(methods.values(), key=lambda method: method.text in CONTROLS)


def all_names() -> list[str]:
    """The published methods, and all others that are registered, with affordable settings and without controls."""
    published = {traits(METHODS.parse(text)).name for text in PUBLISHED}
    others = [name for name in METHODS if name not in published and not traits(METHODS[name]).control]
    return [*PUBLISHED, *(label(METHODS.build(name, REDUCED.get(name))) for name in others)]


def listed_method(method: Any) -> ListedMethod:
    """A method from its name with or without settings, from `file.py:name` or `package.module:name`, or from an object."""
    parsed = own_method(method) if isinstance(method, str) else METHODS.parse(method)
    refuse_positive_controls([parsed], "it has no place in an exam, whose oracle is the perfect map already")
    return ListedMethod(parsed, method if isinstance(method, str) else label(parsed))


def untrusted_methods(methods: Sequence[StoredMethod]) -> list[str]:
    """The texts among the methods of a record that would be imported and that this user did not write there."""
    own = [method for method in methods if holds_code(method["text"]) and code_origins(method["text"])]
    return [method["text"] for method in own if not is_sealed(_seal_text(method["text"]), method.get("seal"))]


def _seal_text(text: str) -> list[str]:
    return ["method", text, code_origins(text)]


def own_method(path: str) -> Method:
    """The method at `file.py:name` or `package.module:name`: a class, an instance or a function."""
    return METHODS.parse(path, load=True)
