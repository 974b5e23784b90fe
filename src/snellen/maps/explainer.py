"""Explainer: one method on one classifier, memoised by content, so that nobody pays for the same map twice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.cache import Cache
from snellen.plugins.registry import label
from snellen.types import Case, Method, Rng


class Explainer:
    """Runs *the same method object* again on other inputs, targets or a sibling of the classifier."""

    def __init__(self, method: Method, classifier: Classifier, targets: Int[Tensor, " batch"]) -> None:
        self.method = method
        self.classifier = classifier
        self.targets = targets
        self._maps = Cache(copies=True)

    def __call__(
        self,
        inputs: Float[Tensor, "batch channels height width"],
        *,
        targets: Int[Tensor, " batch"] | None = None,
        classifier: Classifier | None = None,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        """One map per row of `inputs`; without `targets` the case's own are meant, each repeated to fill the rows."""
        used = classifier or self.classifier
        if targets is None:
            targets = self.targets.repeat_interleave(len(inputs) // len(self.targets))
        digest = hashlib.sha256(inputs.contiguous().numpy().data)
        digest.update(targets.contiguous().numpy().data)
        digest.update(f"{used.fingerprint}{rng!r}".encode())
        key = digest.digest()
        return self._maps.get_or_compute(key, lambda: self.method(used, inputs, targets, rng=rng), used)


def case_of(
    method: Method,
    classifier: Classifier,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    *,
    rng: Rng,
    truth: Bool[Tensor, "batch height width"] | None = None,
    labels: Int[Tensor, " batch"] | None = None,
    maps: Float[Tensor, "batch height width"] | None = None,
    variants: Mapping[str, Classifier] | None = None,
) -> Case:
    """A case whose maps come from the method, or were computed by it before and are given as `maps`."""
    explain = Explainer(method, classifier, targets)
    if maps is None:
        with torch.no_grad():
            maps = method(classifier, inputs, targets, rng=rng)
        wanted = (len(inputs), *inputs.shape[2:])
        if tuple(maps.shape) != wanted:
            given, needed = ("×".join(map(str, one)) for one in (maps.shape, wanted))
            raise ValueError(f"{label(method)} gave maps of {given}, not one number per pixel of each image, {needed}")
    return Case(classifier, inputs, targets, maps, explain, truth, MappingProxyType(dict(variants or {})), labels)
