"""Twins of metrics over variants of the classifier: randomised, rewritten, summed, compressed, shifted."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from scipy import stats

from snellen.plugins.checks.planted import PlantedBatch, PlantedCNN
from snellen.plugins.checks.planted_rewrites import rewrites

# Twins on the planted network, whose layers are known by name --------------------------------------------------------

DOWN = ("head", "features", "colours")


def redrawn(scene: PlantedBatch, names: tuple[str, ...]) -> PlantedCNN:
    """A copy with these layers as if never trained."""
    net = copy.deepcopy(scene.classifier.module)
    for name in names:
        layer = net.get_submodule(name)
        draws = scene.rng.shared(f"randomised/{name}/weight").standard_normal(tuple(layer.weight.shape), dtype=np.float32)
        fan_in = draws.size // len(draws)
        layer.weight.data = torch.from_numpy(draws * np.float32(math.sqrt(2 / fan_in)))
        layer.bias.data = torch.zeros(len(draws))
    return net


def slope(net: torch.nn.Module, scene: PlantedBatch, i: int, moved: float = 0.0) -> np.ndarray:
    """Input times gradient of one picture, by plain autograd."""
    picture = (scene.inputs[i : i + 1] + moved).clone().requires_grad_()
    net(picture)[0, int(scene.targets[i])].backward()
    return (picture.grad * picture).detach().sum(dim=1)[0].double().numpy()


def rank_likeness(first: np.ndarray, second: np.ndarray) -> float:
    return float(stats.spearmanr(first.flatten(), second.flatten()).statistic)


def sensitive(scene: PlantedBatch, i: int, saliency: np.ndarray, stages: list[tuple[str, ...]]) -> float:
    again = [np.abs(slope(redrawn(scene, stage), scene, i)) for stage in stages]
    likenesses = [rank_likeness(np.abs(saliency), other) for other in again if other.max() > other.min()]
    return sum(likenesses) / len(likenesses)


def binned(saliency: np.ndarray) -> float:
    """The entropy of 100 even bins from the least to the greatest value."""
    low, high = saliency.min(), saliency.max()
    counts = [0] * 100
    for value in saliency.flatten():
        counts[min(99, int((value - low) / (high - low) * 100))] += 1
    return -sum(count / saliency.size * math.log(count / saliency.size) for count in counts if count)


def disorder(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    after = slope(redrawn(scene, DOWN), scene, i)
    return (binned(after) - binned(saliency)) / binned(saliency)


def norm(saliency: np.ndarray) -> float:
    return math.sqrt(sum(value**2 for value in saliency.flatten()))


def rewriting(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    """The rewrites of the tests are others than those of the metric; an invariant method is 0 for both."""
    variants = rewrites("cnn", scene.classifier.module)
    return max(norm(slope(variant, scene, i) - saliency) for variant in variants.values()) / norm(saliency)


def additive(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    class Half(torch.nn.Module):
        def __init__(self, own: float) -> None:
            super().__init__()
            self.net, self.own = scene.classifier.module, own

        def forward(self, inputs):
            logits = self.net(inputs)
            return self.own * logits + (1 - self.own) * logits[:, [1, 2, 0]]

    other, both = slope(Half(0.0), scene, i), slope(Half(0.5), scene, i)
    return norm(both - (saliency + other) / 2) / ((norm(saliency) + norm(other)) / 2)


def moved(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    """The gradient does not change, so the map of x - 1 is (x - 1) times the old gradient."""
    picture = scene.inputs[i : i + 1].clone().requires_grad_()
    scene.classifier.module(picture)[0, int(scene.targets[i])].backward()
    return norm(picture.grad[0].double().numpy().sum(axis=0)) / norm(saliency)


def compressed(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    weights = [scene.classifier.module.get_submodule(name).weight for name in DOWN]
    sizes = sorted(abs(float(value)) for weight in weights for value in weight.flatten())
    limit = sizes[int(0.3 * len(sizes)) - 1]
    pruned, rounded = (copy.deepcopy(scene.classifier.module) for _ in range(2))
    for name in DOWN:
        layer = pruned.get_submodule(name).weight.data
        layer[layer.abs() <= limit] = 0
        for row in rounded.get_submodule(name).weight.data:
            step = row.abs().max() / 127
            row.copy_((row / step).round() * step)
    return sum(rank_likeness(saliency, slope(net, scene, i)) for net in (pruned, rounded)) / 2


TWINS = {
    "cascading-randomisation": lambda s, i, a: sensitive(s, i, a, [DOWN[:1], DOWN[:2], DOWN]),
    "independent-randomisation": lambda s, i, a: sensitive(s, i, a, [(name,) for name in DOWN]),
    "weight-randomisation": lambda s, i, a: sensitive(s, i, a, [DOWN]),
    "efficient-randomisation": disorder,
    "implementation-invariance": rewriting,
    "linearity": additive,
    "input-invariance": moved,
    "model-consistency": compressed,
}
