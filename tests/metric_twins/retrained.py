"""Tests against models that were trained again; the stand-in for every trained relative is the planted residual network."""

from __future__ import annotations

import numpy as np
import torch
from skimage.metrics import structural_similarity

from metric_scenes import Deaf, Knowing, Slope
from planted import Planted, network


def other_slope(scene: Planted, i: int, target: int, net: torch.nn.Module) -> np.ndarray:
    leaf = scene.inputs[i : i + 1].clone().requires_grad_()
    net.eval()(leaf)[0, target].backward()
    return (leaf.grad[0] * leaf.detach()[0]).sum(dim=0).double().numpy()


def alike(one: np.ndarray, two: np.ndarray) -> float:
    span = max(one.max() - one.min(), two.max() - two.min())
    _, field = structural_similarity(one, two, win_size=5, data_range=span, full=True)
    return float(field[2:-2, 2:-2].mean())


def retrained(scene: Planted, i: int, saliency: np.ndarray) -> float:
    return alike(saliency, other_slope(scene, i, int(scene.targets[i]), network("resnet")))


TWINS = {"data-randomisation": retrained, "repeatability": retrained, "reproducibility": retrained}
PAIRS = {
    "data-randomisation": (Slope(), Deaf()),
    "repeatability": (Knowing(), Slope()),
    "reproducibility": (Knowing(), Slope()),
}
EXEMPT: dict[tuple[str, str], str] = {}
