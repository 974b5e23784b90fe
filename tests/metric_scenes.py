"""What the metric tests have in common: methods of known quality, and cases of the planted problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tests.planted import Planted, classifier, truth_of

from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer
from snellen.plugins.registry import traits
from snellen.types import Case, NeedsVariants, Passes


@dataclass(frozen=True)
class Knowing:
    """Marks the target's patch, a little more to the right and below so that no two pixels are equal; never wavers."""

    def __call__(self, classifier, inputs, targets, *, rng):
        ramp = torch.arange(inputs.shape[2] * inputs.shape[3]).view(1, *inputs.shape[2:]) / 2**12
        return truth_of(targets).float() + ramp

    def passes(self, size, classifier):
        return Passes()


@dataclass(frozen=True)
class Misled:
    """Random weights on everything but the target's patch, drawn anew at every call."""

    def __call__(self, classifier, inputs, targets, *, rng):
        return (0.5 + rng.uniform("misled", tuple(inputs.shape[2:]))) * ~truth_of(targets)

    def passes(self, size, classifier):
        return Passes()


@dataclass(frozen=True)
class Slope:
    """Input times gradient: reads the inputs and the classifier, and costs one pass each way."""

    def __call__(self, classifier, inputs, targets, *, rng):
        gradient, _ = classifier.gradient(inputs, targets)
        return (gradient * inputs).sum(dim=1)

    def passes(self, size, classifier):
        return Passes(1, 1)


@dataclass(frozen=True)
class Deaf:
    """One fixed map, whatever the classifier, the picture or the target."""

    def __call__(self, classifier, inputs, targets, *, rng):
        ramp = torch.arange(float(inputs.shape[2] * inputs.shape[3])).view(1, *inputs.shape[2:])
        return ramp.expand(len(inputs), -1, -1).clone()

    def passes(self, size, classifier):
        return Passes()


def case(of: Planted, method: Any, *, maps: torch.Tensor | None = None, metric: Any = None) -> Case:
    """The case of a method on planted samples, with the variants that the metric asks for."""
    if maps is None:
        maps = method(of.classifier, of.inputs, of.targets, rng=of.rng)
    explain = Explainer(method, of.classifier, of.targets)
    variants = {} if metric is None else variants_of(metric, method, of)
    return Case(of.classifier, of.inputs, of.targets, maps, explain, of.truth, variants, of.targets.clone())


def variants_of(metric: Any, method: Any, of: Planted) -> Mapping[str, Classifier]:
    """Stand-ins for trained relatives: the planted problem as another network learnt it; and two earlier states of it."""
    found = {}
    if isinstance(metric, NeedsVariants):
        found |= {
            one.name: of.classifier.count_passes_of(classifier(net="resnet")) for one in metric.trained_variants(method)
        }
    if "checkpoints" in traits(metric).needs:
        for step, share in enumerate((0.7, 0.9)):
            state = mistaken(younger(of.classifier.module, share))
            found[f"checkpoint/{step}"] = of.classifier.variant(state, f"step {step}")
    return found


def younger(module: torch.nn.Module, share: float) -> torch.nn.Module:
    """The network on its way from random weights: some share of what it became, the rest noise of the same size."""
    import copy

    young = copy.deepcopy(module)
    noise = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for one in young.parameters():
            spread = one.std() if one.numel() > 1 else one.abs()
            one.mul_(share).add_((1 - share) * spread * torch.randn(one.shape, generator=noise))
    return young


def mistaken(module: torch.nn.Module) -> torch.nn.Module:
    """The planted network with its answers turned round, so that it takes every picture for one of the next class."""
    for one in module.head.parameters():
        one.data = one.data.roll(1, dims=0)
    return module


def rows(of: Planted, order: list[int]) -> Planted:
    """The same samples in another order, or only some of them."""
    rng = replace(of.rng, ids=tuple(of.rng.ids[one] for one in order))
    return replace(
        of, pixels=of.pixels[order], inputs=of.inputs[order], targets=of.targets[order], truth=of.truth[order], rng=rng
    )


def probability(scene: Planted, i: int, inputs: np.ndarray) -> float:
    """The target's probability, one image, plain NumPy softmax."""
    net = scene.classifier.module
    with torch.no_grad():
        logits = net(torch.from_numpy(inputs[None].astype(np.float32)))[0].double().numpy()
    powers = np.exp(logits - logits.max())
    return float(powers[int(scene.targets[i])] / powers.sum())
