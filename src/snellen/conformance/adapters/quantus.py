"""Quantus: its counterparts of our quantities, with `abs` and `normalise` set so that the quantity is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from snellen.conformance.adapters.workarounds import old_numpy_names, working_torchvision
from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import Ask, NotOffered

working_torchvision()
old_numpy_names()

import quantus  # noqa: E402

_QUIET = {"disable_warnings": True, "display_progressbar": False}
_RAW = {"abs": False, "normalise": False, **_QUIET}
_MAGNITUDES = {"abs": True, "normalise": False, **_QUIET}


def _called(metric: Any, scene: Scene, *, softmax: bool = True, again: bool = False) -> Any:
    """As its documentation calls a metric; arrays are handed over as they are, not copied."""
    explain = scene.explain

    def explained(model: Any, inputs: Any, targets: Any, **rest: Any) -> np.ndarray:
        if explain is None:
            raise NotOffered("a method to explain again")
        given, wanted = torch.as_tensor(np.asarray(inputs)).float(), torch.as_tensor(np.asarray(targets)).long()
        return explain(model, given, wanted).unsqueeze(1).detach().numpy()

    return metric(
        model=scene.model,
        x_batch=scene.inputs.numpy(),
        y_batch=scene.targets.numpy(),
        a_batch=scene.maps.unsqueeze(1).numpy(),
        s_batch=None if scene.truth is None else scene.truth.unsqueeze(1).numpy(),
        channel_first=True,
        softmax=softmax,
        device="cpu",
        batch_size=scene.batch,
        explain_func=explained,
    )


def _scores(metric: Any, scene: Scene, **how: Any) -> list[float]:
    return [float(one) for one in np.asarray(_called(metric, scene, **how), dtype=float).ravel()]


def _spread(kind: Any) -> Ask:
    def ask(scene: Scene) -> Sequence[float]:
        # Magnitudes of a map without negative values are the map itself, so nobody would ask for `abs`.
        return _scores(kind(**(_MAGNITUDES if bool((scene.maps < 0).any()) else _RAW)), scene)

    return ask


def _sensitivity(kind: Any) -> Ask:
    def ask(scene: Scene, *, samples: int, radius: float) -> Sequence[float]:
        return _scores(kind(nr_samples=samples, lower_bound=radius, **_RAW), scene, softmax=False)

    return ask


def _deletion(scene: Scene, *, steps: int, fill: str) -> list[float]:
    """Pixel flipping, one pixel of the map at a time; it must be given steps that divide the pixels."""
    pixels = scene.maps[0].numel()
    if fill not in ("mean", "black") or pixels % steps:
        raise NotOffered(f"deletion in {steps} steps with {fill}")
    metric = quantus.PixelFlipping(
        features_in_step=pixels // steps, perturb_baseline="black", return_auc_per_sample=True, **_RAW
    )
    return _scores(metric, scene)


OFFERS: dict[str, Ask] = {
    "complexity": _spread(quantus.Complexity),
    "sparseness": _spread(quantus.Sparseness),
    "max-sensitivity": _sensitivity(quantus.MaxSensitivity),
    "avg-sensitivity": _sensitivity(quantus.AvgSensitivity),
    "deletion": _deletion,
    "pointing-game": lambda scene: _scores(quantus.PointingGame(**_RAW), scene),
    "relevance-mass": lambda scene: _scores(quantus.RelevanceMassAccuracy(**_MAGNITUDES), scene),
    "relevance-rank": lambda scene: _scores(quantus.RelevanceRankAccuracy(**_RAW), scene),
    "plausibility": lambda scene: _scores(quantus.AUC(**_RAW), scene),
}
