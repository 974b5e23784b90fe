"""captum.metrics: infidelity and maximal sensitivity."""

from __future__ import annotations

import torch
from captum.metrics import infidelity, sensitivity_max
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

    found = [
        sensitivity_max(
            explained, scene.inputs[rows], perturb_radius=radius, n_perturb_samples=samples, target=scene.targets[rows]
        )
        for rows in scene.batches()
    ]
    return [float(one) for one in torch.cat(found)]


def _infidelity(scene: Scene, *, samples: int, size: float, scaled: bool = False) -> list[float]:
    """Squares at random places are set to zero; the perturbation is 1 inside, so that attributions are contributions."""
    channels, height, width = scene.inputs.shape[1:]
    side = max(1, round(size * min(height, width)))

    def removed(inputs: Tensor) -> tuple[Tensor, Tensor]:
        inside = torch.zeros_like(inputs)
        for one in inside:
            top, left = (int(torch.randint(length - side + 1, ())) for length in (height, width))
            one[:, top : top + side, left : left + side] = 1
        return inside, inputs * (1 - inside)

    found: list[Tensor] = []
    for rows in scene.batches():
        shared = scene.maps[rows].unsqueeze(1).expand(-1, channels, -1, -1) / channels  # they add up to the map
        found.append(
            infidelity(
                scene.model, removed, scene.inputs[rows], shared, target=scene.targets[rows], n_perturb_samples=samples,
                normalize=scaled,
            )
        )  # fmt: skip
    return [float(one) for one in torch.cat(found)]


OFFERS: dict[str, Ask] = {"infidelity": _infidelity, "max-sensitivity": _max_sensitivity}
