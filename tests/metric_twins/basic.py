"""Twins of the default metrics: deletion and insertion, confidence, sensitivity, complexity, pointing games."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from scipy import ndimage
from tests.metric_twins.probability import probability

from snellen.plugins.checks.planted import PlantedBatch
from snellen.plugins.checks.planted_methods import InputTimesGradient
from snellen.types import Rng


def blurred(inputs: np.ndarray) -> np.ndarray:
    spike = np.zeros((11, 11))
    spike[5, 5] = 1
    kernel = ndimage.gaussian_filter(spike, 5)
    return np.stack([ndimage.correlate(channel, kernel, mode="constant", cval=0.0) for channel in inputs])


def swept(scene: PlantedBatch, i: int, saliency: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    places = sorted(((-value, place) for place, value in np.ndenumerate(saliency)))
    picture, curve, done = start.copy(), [probability(scene, i, start)], 0
    for step in range(1, 29):
        until = len(places) * step // 28
        for _, (row, column) in places[done:until]:
            picture[:, row, column] = end[:, row, column]
        done = until
        curve.append(probability(scene, i, picture))
    return sum((left + right) / 2 for left, right in itertools.pairwise(curve)) / 28


def confidence(scene: PlantedBatch, i: int, saliency: np.ndarray) -> tuple[float, float]:
    size = np.abs(saliency)
    mask = (size - size.min()) / (size.max() - size.min())
    masked = scene.classifier.to_inputs(torch.from_numpy(mask[None] * scene.pixels[i].double().numpy())[None])[0]
    return probability(scene, i, scene.inputs[i].numpy()), probability(scene, i, masked.numpy())


def drop(before: float, after: float) -> float:
    return (before - after) / before if after < before else 0.0


def increase(before: float, after: float) -> float:
    return 1.0 if after > before else 0.0


def gain(before: float, after: float) -> float:
    return (after - before) / (1 - before) if after > before else 0.0


def changes(scene: PlantedBatch, i: int, saliency: np.ndarray) -> list[float]:
    distances = []
    for sample in range(10):
        rng = Rng(scene.rng.seed, (f"{scene.rng.ids[i]}#{sample}",), "/sensitivity")
        noise = rng.uniform("perturbation", (3, 24, 24)) * 0.4 - 0.2
        moved = scene.inputs[i : i + 1] + noise
        again = InputTimesGradient()(scene.classifier, moved, scene.targets[i : i + 1], rng=rng)[0].numpy()
        distances.append(math.sqrt(((again - saliency) ** 2).sum()) / math.sqrt((saliency**2).sum()))
    return distances


def gini(weights: list[float]) -> float:
    """Half the mean absolute difference between two pixels, relative to the mean: another formula than the metric's."""
    values = np.array(weights)
    return float(np.abs(values[:, None] - values[None]).mean() / (2 * values.mean()))


def entropy(weights: list[float]) -> float:
    return -sum(weight / sum(weights) * math.log(weight / sum(weights)) for weight in weights if weight > 0)


def pointed(saliency: np.ndarray, truth: np.ndarray) -> float:
    return float(truth[np.unravel_index(saliency.argmax(), saliency.shape)])


def energy(saliency: np.ndarray, truth: np.ndarray) -> float:
    inside = sum(value for place, value in np.ndenumerate(saliency) if value > 0 and truth[place])
    return inside / sum(value for value in saliency.flat if value > 0)


TWINS = {
    "deletion": lambda s, i, a: swept(s, i, a, s.inputs[i].numpy(), np.zeros((3, 24, 24))),
    "insertion": lambda s, i, a: swept(s, i, a, blurred(s.inputs[i].numpy()), s.inputs[i].numpy()),
    "average-drop": lambda s, i, a: drop(*confidence(s, i, a)),
    "average-increase": lambda s, i, a: increase(*confidence(s, i, a)),
    "average-gain": lambda s, i, a: gain(*confidence(s, i, a)),
    "complexity": lambda s, i, a: entropy(np.abs(a).flatten().tolist()),
    "sparseness": lambda s, i, a: gini(np.abs(a).flatten().tolist()),
    "max-sensitivity": lambda s, i, a: max(changes(s, i, a)),
    "avg-sensitivity": lambda s, i, a: sum(changes(s, i, a)) / 10,
    "pointing-game": lambda s, i, a: pointed(a, s.truth[i].numpy()),
    "energy-pointing-game": lambda s, i, a: energy(a, s.truth[i].numpy()),
}
