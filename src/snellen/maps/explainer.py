"""Explainer: runs a method, and caches maps by the content of inputs, targets, model and random seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.cache import Cache
from snellen.plugins.registry import label
from snellen.types import Case, Images, Maps, Method, Rng, Targets


class Explainer:
    """Runs the same method object on other inputs, other targets or a variant of the classifier."""

    def __init__(self, method: Method, classifier: Classifier, targets: Targets) -> None:
        self.method = method
        self.classifier = classifier
        self.targets = targets
        self._maps = Cache(copies=True)

    def __call__(
        self, inputs: Images, *, targets: Targets | None = None, classifier: Classifier | None = None, rng: Rng
    ) -> Maps:
        """One map per row of `inputs`; the default targets are those of the case, each repeated to fill the rows."""
        model = classifier or self.classifier
        if targets is None:
            targets = self.targets.repeat_interleave(len(inputs) // len(self.targets))
        digest = hashlib.sha256(inputs.contiguous().numpy().data)
        digest.update(targets.contiguous().numpy().data)
        digest.update(f"{model.fingerprint}{rng!r}".encode())
        key = digest.digest()
        return self._maps.get_or_compute(key, lambda: self.method(model, inputs, targets, rng=rng), model)


def case_of(
    method: Method,
    classifier: Classifier,
    inputs: Images,
    targets: Targets,
    *,
    rng: Rng,
    truth: Bool[Tensor, "batch height width"] | None = None,
    labels: Int[Tensor, " batch"] | None = None,
    maps: Maps | None = None,
    variants: Mapping[str, Classifier] | None = None,
) -> Case:
    """The case of a method on a batch of inputs.

    Args:
        method: the method that explains.
        classifier: the model that is explained.
        inputs: normalised images.
        targets: the class of each image that is explained.
        rng: random numbers of the method.
        truth: the regions that correct maps should highlight.
        labels: true classes, -1 where unlabelled.
        maps: maps that the method computed before; computed now if None.
        variants: variants of the classifier by name.
    """
    explain = Explainer(method, classifier, targets)
    if maps is None:
        with torch.no_grad():
            maps = method(classifier, inputs, targets, rng=rng)
        expected = (len(inputs), *inputs.shape[2:])
        if tuple(maps.shape) != expected:
            actual, needed = ("×".join(map(str, shape)) for shape in (maps.shape, expected))
            raise ValueError(f"{label(method)} gave maps of {actual}, not one number per pixel of each image, {needed}")
    return Case(
        classifier=classifier,
        inputs=inputs,
        targets=targets,
        maps=maps,
        explain=explain,
        truth=truth,
        variants=MappingProxyType(dict(variants or {})),
        labels=labels,
    )
