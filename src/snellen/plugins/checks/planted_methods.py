"""Methods of known quality on the planted problem, and cases of them, by which metrics are checked."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer
from snellen.plugins.checks.planted import PlantedBatch, patches, planted_classifier
from snellen.plugins.registry import traits
from snellen.types import (
    CHECKPOINT,
    Case,
    Images,
    Maps,
    Method,
    Metric,
    NeedsVariants,
    OneGradient,
    Rng,
    Targets,
    WithoutClassifier,
)


@dataclass(frozen=True)
class MarksPatch(WithoutClassifier):
    """The right map: the target's patch, plus a faint ramp that makes every pixel's value unique."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        ramp = torch.arange(inputs.shape[2] * inputs.shape[3]).view(1, *inputs.shape[2:]) / 2**12
        return patches(targets).float() + ramp


@dataclass(frozen=True)
class MarksRest(WithoutClassifier):
    """A wrong map: random values everywhere but on the target's patch, different for every rng."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        return (0.5 + rng.uniform("misled", tuple(inputs.shape[2:]))) * ~patches(targets)


@dataclass(frozen=True)
class InputTimesGradient(OneGradient):
    """A real method: it depends on inputs and classifier, and costs one pass each way."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        gradient, _ = classifier.gradient(inputs, targets)
        return (gradient * inputs).sum(dim=1)


@dataclass(frozen=True)
class FixedMap(WithoutClassifier):
    """The same map for every classifier, image and target."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        ramp = torch.arange(float(inputs.shape[2] * inputs.shape[3])).view(1, *inputs.shape[2:])
        return ramp.expand(len(inputs), -1, -1).clone()


def planted_case(batch: PlantedBatch, method: Method, *, maps: Maps | None = None, metric: Metric | None = None) -> Case:
    """The case of a method on planted samples, with the variants that the metric needs.

    Args:
        batch: the samples and their classifier.
        method: what `Case.explain` runs.
        maps: the maps to score; by default those of the method.
        metric: decides which variants of the classifier the case holds.
    """
    if maps is None:
        maps = method(batch.classifier, batch.inputs, batch.targets, rng=batch.rng)
    return Case(
        classifier=batch.classifier,
        inputs=batch.inputs,
        targets=batch.targets,
        maps=maps,
        explain=Explainer(method, batch.classifier, batch.targets),
        truth=batch.truth,
        variants={} if metric is None else planted_variants(metric, method, batch),
        labels=batch.targets.clone(),
    )


def planted_variants(metric: Metric, method: Method, batch: PlantedBatch) -> Mapping[str, Classifier]:
    """Untrained stand-ins for the variants that a metric needs: the planted residual network, and two checkpoints."""
    variants: dict[str, Classifier] = {}
    if isinstance(metric, NeedsVariants):
        for variant in metric.trained_variants(method):
            variants[variant.name] = batch.classifier.count_passes_of(planted_classifier(kind="resnet"))
    if "checkpoints" in traits(metric).needs:
        for step, share in enumerate((0.7, 0.9)):
            state = rotate_classes(towards_noise(batch.classifier.module, share))
            variants[f"{CHECKPOINT}{step}"] = batch.classifier.variant(state, f"step {step}")
    return variants


def towards_noise(module: nn.Module, share: float) -> nn.Module:
    """A copy like a state early in training: `share` of each weight, the rest noise of the same spread."""
    early = copy.deepcopy(module)
    noise = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in early.parameters():
            spread = parameter.std() if parameter.numel() > 1 else parameter.abs()
            parameter.mul_(share).add_((1 - share) * spread * torch.randn(parameter.shape, generator=noise))
    return early


def rotate_classes(module: Any) -> Any:
    """The planted network itself, changed to predict the next class for every image."""
    for parameter in module.head.parameters():
        parameter.data = parameter.data.roll(1, dims=0)
    return module


def take(batch: PlantedBatch, order: list[int]) -> PlantedBatch:
    """The samples of these indices, in this order."""
    return replace(
        batch,
        pixels=batch.pixels[order],
        inputs=batch.inputs[order],
        targets=batch.targets[order],
        truth=batch.truth[order],
        rng=replace(batch.rng, ids=tuple(batch.rng.ids[index] for index in order)),
    )
