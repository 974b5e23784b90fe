"""captum.metrics: infidelity and maximal sensitivity."""

from __future__ import annotations

import torch
from captum.metrics import sensitivity_max
from torch import Tensor

from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import Ask, NotOffered


def _max_sensitivity(scene: Scene, *, samples: int, radius: float) -> list[float]:
    explain = scene.explain
    if explain is None:
        raise NotOffered("max-sensitivity without a method")

    def explained(inputs: Tensor | tuple[Tensor, ...], target: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Like captum's own `attribute`: a tuple for a tuple, and a single target is meant for all rows."""
        given = inputs[0] if isinstance(inputs, tuple) else inputs
        maps = explain(scene.model, given, target.expand(len(given))).unsqueeze(1)
        return (maps,) if isinstance(inputs, tuple) else maps

    found: list[Tensor] = []
    for begin in range(0, len(scene), scene.batch):
        rows = slice(begin, begin + scene.batch)
        found.append(
            sensitivity_max(
                explained, scene.inputs[rows], perturb_radius=radius, n_perturb_samples=samples, target=scene.targets[rows]
            )
        )
    return [float(one) for one in torch.cat(found)]


OFFERS: dict[str, Ask] = {"max-sensitivity": _max_sensitivity}
