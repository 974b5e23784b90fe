"""What the metric tests have in common: the methods and cases of `snellen.plugins.checks`, under short names."""

from __future__ import annotations

import numpy as np
import torch

from snellen.plugins.checks.known_methods import (
    FixedMap,
    InputTimesGradient,
    MarksPatch,
    MarksRest,
    rotate_classes,
    towards_noise,
)
from snellen.plugins.checks.known_methods import planted_case as case
from snellen.plugins.checks.known_methods import take as rows
from snellen.plugins.checks.planted import PlantedBatch

__all__ = [
    "FixedMap",
    "InputTimesGradient",
    "MarksPatch",
    "MarksRest",
    "case",
    "probability",
    "rotate_classes",
    "rows",
    "towards_noise",
]


def probability(scene: PlantedBatch, i: int, inputs: np.ndarray) -> float:
    """The target's probability, one image, plain NumPy softmax."""
    net = scene.classifier.module
    with torch.no_grad():
        logits = net(torch.from_numpy(inputs[None].astype(np.float32)))[0].double().numpy()
    powers = np.exp(logits - logits.max())
    return float(powers[int(scene.targets[i])] / powers.sum())
