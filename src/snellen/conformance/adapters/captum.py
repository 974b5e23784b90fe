"""captum.metrics: infidelity and maximal sensitivity."""

from __future__ import annotations

import torch
from captum.metrics import infidelity, sensitivity_max
from torch import Tensor

from snellen.conformance.fixtures import Fixture
from snellen.conformance.toolkit import Compute, NotOffered


def _max_sensitivity(fixture: Fixture, *, samples: int, radius: float) -> list[float]:
    explain = fixture.explain
    if explain is None:
        raise NotOffered("max-sensitivity without a method")

    def explained(inputs: Tensor | tuple[Tensor, ...], target: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Like captum's own `attribute`: a tuple for a tuple, and a single target is meant for all rows."""
        images = inputs[0] if isinstance(inputs, tuple) else inputs
        maps = explain(fixture.model, images, target.expand(len(images))).unsqueeze(1)
        return (maps,) if isinstance(inputs, tuple) else maps

    scores = [
        sensitivity_max(
            explained, fixture.inputs[rows], perturb_radius=radius, n_perturb_samples=samples, target=fixture.targets[rows]
        )
        for rows in fixture.batches()
    ]
    return [float(score) for score in torch.cat(scores)]


def _infidelity(fixture: Fixture, *, samples: int, size: float, scaled: bool = False) -> list[float]:
    """Squares at random places are set to zero; the perturbation is 1 inside, so that attributions are contributions."""
    channels, height, width = fixture.inputs.shape[1:]
    side = max(1, round(size * min(height, width)))

    def removed(inputs: Tensor) -> tuple[Tensor, Tensor]:
        inside = torch.zeros_like(inputs)
        for mask in inside:
            top, left = (int(torch.randint(length - side + 1, ())) for length in (height, width))
            mask[:, top : top + side, left : left + side] = 1
        return inside, inputs * (1 - inside)

    scores: list[Tensor] = []
    for rows in fixture.batches():
        parts = fixture.maps[rows].unsqueeze(1).expand(-1, channels, -1, -1) / channels  # they add up to the map
        scores.append(
            infidelity(
                fixture.model, removed, fixture.inputs[rows], parts, target=fixture.targets[rows], n_perturb_samples=samples,
                normalize=scaled,
            )
        )  # fmt: skip
    return [float(score) for score in torch.cat(scores)]


OFFERS: dict[str, Compute] = {"infidelity": _infidelity, "max-sensitivity": _max_sensitivity}
