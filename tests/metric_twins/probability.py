"""The target's probability in plain NumPy."""

from __future__ import annotations

import numpy as np
import torch

from snellen.plugins.checks.planted import PlantedBatch


def probability(scene: PlantedBatch, i: int, inputs: np.ndarray) -> float:
    """The probability of the target of sample `i`, on one image: a plain softmax."""
    net = scene.classifier.module
    with torch.no_grad():
        logits = net(torch.from_numpy(inputs[None].astype(np.float32)))[0].double().numpy()
    powers = np.exp(logits - logits.max())
    return float(powers[int(scene.targets[i])] / powers.sum())
