"""Twins of metrics over retrained models; the planted residual network stands in for every trained variant."""

from __future__ import annotations

import numpy as np
import torch
from skimage.metrics import structural_similarity

from snellen.plugins.checks.planted import PlantedBatch, planted_network
from snellen.plugins.checks.planted_methods import rotate_classes, towards_noise


def other_slope(scene: PlantedBatch, i: int, target: int, net: torch.nn.Module) -> np.ndarray:
    leaf = scene.inputs[i : i + 1].clone().requires_grad_()
    net.eval()(leaf)[0, target].backward()
    return (leaf.grad[0] * leaf.detach()[0]).sum(dim=0).double().numpy()


def alike(first: np.ndarray, second: np.ndarray) -> float:
    span = max(first.max() - first.min(), second.max() - second.min())
    _, field = structural_similarity(first, second, win_size=5, data_range=span, full=True)
    return float(field[2:-2, 2:-2].mean())


def retrained(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    return alike(saliency, other_slope(scene, i, int(scene.targets[i]), planted_network("resnet")))


def roar(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    net = planted_network("resnet").eval()
    places = sorted(((-value, place) for place, value in np.ndenumerate(saliency)))
    right = []
    for fraction in (0.3, 0.6, 0.9):
        picture = scene.inputs[i].clone()
        for _, (row, column) in places[: round(fraction * len(places))]:
            picture[:, row, column] = 0
        right.append(int(net(picture[None]).argmax()) == int(scene.targets[i]))
    return sum(right) / 3


def checkpoint_sensitivity(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    own = planted_network().eval()
    decided = int(own(scene.inputs[i : i + 1]).argmax())
    changes = []
    for share in (0.7, 0.7, 0.9, 0.9):  # two states were saved, so each stands twice among four
        net = rotate_classes(towards_noise(own, share))
        predicted = int(net(scene.inputs[i : i + 1]).argmax())
        if predicted != decided:
            changes.append(1 - alike(saliency, other_slope(scene, i, predicted, net)))
    return sum(changes) / len(changes) if changes else float("nan")


def model_contrast(scene: PlantedBatch, i: int, saliency: np.ndarray) -> float:
    raise AssertionError("see the exemption")


TWINS = {
    "data-randomisation": retrained,
    "repeatability": retrained,
    "reproducibility": retrained,
    "roar": roar,
    "checkpoint-sensitivity": checkpoint_sensitivity,
    "model-contrast": model_contrast,
}
LIGHT = {"model-contrast": {"correct_only": False, "objects": 3}}
