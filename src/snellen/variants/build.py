"""Making a variant of a classifier from a changed copy of its module."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.cache import CachePerObject

TOLERANCE = 2e-5
"""Two models compute the same function if no logit differs by more than this share of the largest logit of its row."""

_CACHE = CachePerObject()


def make_variant(
    classifier: Classifier,
    module: nn.Module,
    name: str,
    *,
    copied: bool = True,
    larger: bool = False,
    key: str | None = None,
) -> Classifier:
    """A classifier with this module, and with the settings and fitted state of the original.

    Args:
        classifier: the original, which is not changed.
        module: the changed module.
        name: says what was changed.
        copied: the module is a copy that nobody else uses, so it is not copied again.
        larger: a pass needs more memory than one of the original, so the rows per pass are determined again.
        key: says exactly what was changed, so that the fingerprint follows from it and no weights are read.
    """
    variant = classifier.variant(module, name, copied=copied, key=key)
    variant.fitted_state = classifier.fitted_state
    if not larger:
        variant.rows, variant.gradient_rows = classifier.rows, classifier.gradient_rows
    return variant


def make_if_same(
    classifier: Classifier,
    key: Hashable,
    make: Callable[[], Classifier | None],
    is_same: Callable[[Classifier], bool],
) -> Classifier | None:
    """What `make` returns, if it passes the test `is_same`; the result of the test is cached under `key`."""

    def made_is_same() -> bool:
        variant = make()
        return variant is not None and is_same(variant)

    if "layer" not in classifier.offers or not _CACHE.get_or_compute(classifier, key, made_is_same):
        return None
    return make()


def wrap_model(
    classifier: Classifier,
    name: str,
    *,
    before: Callable[[Tensor], Tensor] = lambda inputs: inputs,
    after: Callable[[Any], Any] = lambda outputs: outputs,
) -> Classifier:
    """A variant that computes after(model(before(inputs))); the layers keep their names."""
    if "layer" in classifier.offers:
        module = copy.deepcopy(classifier.module)
        kind: Any = type(module)
        module.__class__ = type(kind.__name__, (kind,), {"forward": lambda self, x: after(kind.forward(self, before(x)))})
        variant = make_variant(classifier, module, name)
    elif "gradients" in classifier.offers:
        variant = make_variant(classifier, _Wrapped(copy.deepcopy(classifier.module), before, after), name)
    else:
        variant = classifier.variant(lambda inputs: after(classifier.network.run(before(inputs))), name)
    variant.fingerprint = hashlib.sha256(f"{classifier.fingerprint} {name}".encode()).hexdigest()[:16]
    return variant


class _Wrapped(nn.Module):
    """A model without layers between two functions."""

    def __init__(self, net: nn.Module, before: Callable[[Tensor], Tensor], after: Callable[[Any], Any]) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, inputs: Tensor) -> Any:
        return self.after(self.net(self.before(inputs)))


def replace_layer(module: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Replaces the named layer of a module, and returns the old one."""
    parent_name, _, last = name.rpartition(".")
    parent = module.get_submodule(parent_name)
    old = getattr(parent, last)
    setattr(parent, last, layer)
    return old  # type: ignore[no-any-return]


def noise_images(classifier: Classifier, size: tuple[int, int]) -> Float[Tensor, "2 channels height width"]:
    """Two inputs of fixed noise, a weak and a strong one, on which models are compared."""
    noise = np.random.default_rng(7).standard_normal((2, classifier.channels, *size), dtype=np.float32)
    return torch.from_numpy(noise) * torch.tensor([0.5, 6.0]).view(2, 1, 1, 1)


def logits_agree(logits: Float[Tensor, "rows classes"], expected: Float[Tensor, "rows classes"]) -> bool:
    """Whether logits are the same up to rounding (see `TOLERANCE`)."""
    allowed = TOLERANCE * expected.abs().amax(dim=1, keepdim=True)
    return bool(((logits - expected).abs() <= allowed).all())
