"""Fitted state: what some methods compute from the user's images before they can explain one."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping

from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import label, traits
from snellen.types import Method, NeedsFit


def methods_to_fit(method: Method) -> dict[str, NeedsFit]:
    """The methods that must be fitted, by their `fit_key()`: this method and those that it wraps."""
    return {part.fit_key(): part for part in _methods_within(method) if isinstance(part, NeedsFit)}


def read_fitted_state(method: NeedsFit, classifier: Classifier) -> dict[str, Tensor]:
    """The fitted state of a method for this classifier; a SnellenError if there is none."""
    key = method.fit_key()
    if key not in classifier.fitted_state:
        name = label(method)
        raise SnellenError(
            f"{name} is not fitted to any images yet for '{classifier.name}'; "
            f'call snellen.fit(classifier, images, methods=["{name}"]) first'
        )
    return classifier.fitted_state[key]


def digest(state: Mapping[str, Tensor]) -> str:
    """A hash of all names and numbers in a fitted state."""
    content = hashlib.sha256()
    for name in sorted(state):
        array = state[name].detach().cpu().contiguous().numpy()
        content.update(repr((name, str(array.dtype), array.shape)).encode())
        content.update(array.tobytes())
    return content.hexdigest()[:20]


def _methods_within(plugin: object) -> Iterator[Method]:
    if not dataclasses.is_dataclass(plugin) or not hasattr(plugin, "traits"):
        return
    if isinstance(plugin, Method) and hasattr(traits(plugin), "deterministic"):
        yield plugin
    for field in dataclasses.fields(plugin):
        value = getattr(plugin, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            yield from _methods_within(part)
