"""What a method must learn from the user's images before it can explain one: found in a method, looked up, told apart."""

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
    """Every lesson that this method or one that it wraps needs, by name, with one that can learn it."""
    return {one.fit_key(): one for one in _within(method) if isinstance(one, NeedsFit)}


def read_fitted_state(method: NeedsFit, classifier: Classifier) -> dict[str, Tensor]:
    """What the method learnt on this classifier, or a sentence that says how it would."""
    lesson = method.fit_key()
    if lesson not in classifier.fitted_state:
        name = label(method)
        raise SnellenError(
            f"{name} has not learnt from any images yet for '{classifier.name}'; "
            f'call snellen.fit(classifier, images, methods=["{name}"]) first'
        )
    return classifier.fitted_state[lesson]


def digest(lesson: Mapping[str, Tensor]) -> str:
    """Stands for the content of a lesson; any other number gives another."""
    found = hashlib.sha256()
    for name in sorted(lesson):
        array = lesson[name].detach().cpu().contiguous().numpy()
        found.update(repr((name, str(array.dtype), array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()[:20]


def _within(plugin: object) -> Iterator[Method]:
    if not dataclasses.is_dataclass(plugin) or not hasattr(plugin, "traits"):
        return
    if isinstance(plugin, Method) and hasattr(traits(plugin), "deterministic"):
        yield plugin
    for field in dataclasses.fields(plugin):
        value = getattr(plugin, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            yield from _within(part)
