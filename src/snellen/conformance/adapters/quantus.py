"""Quantus: its counterparts of our quantities, with `abs` and `normalise` set so that the quantity is the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.integrate import trapezoid
from torch import Tensor

from snellen.conformance.adapters.workarounds import old_numpy_names, working_torchvision
from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import Ask, NotOffered

working_torchvision()
old_numpy_names()

import quantus  # noqa: E402

_QUIET = {"disable_warnings": True, "display_progressbar": False}
_ZERO = 0.0  # its "black" is the smallest value of the batch
_RAW = {"abs": False, "normalise": False, **_QUIET}
_POSITIVE = {"positive_attributions": True, **_RAW}
_MAGNITUDES = {"abs": True, "normalise": False, **_QUIET}


def _called(metric: Any, scene: Scene, *, softmax: bool = True, attributions: Tensor | None = None) -> Any:
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
        a_batch=(scene.maps.unsqueeze(1) if attributions is None else attributions).numpy(),
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
    """The area under the curve of pixel flipping, over steps from 0 to 1; it must be given steps that divide the pixels.

    The curve is handed out from the first flip on and with a point for every channel, so the output for the untouched
    picture is put before it, and the points at which a pixel is gone with all of its channels are read.
    """
    pixels, channels = scene.maps[0].numel(), scene.inputs.shape[1]
    if fill not in ("mean", "black") or pixels % steps:
        raise NotOffered(f"deletion in {steps} steps with {fill}")
    metric = quantus.PixelFlipping(features_in_step=pixels // steps, perturb_baseline=_ZERO, **_RAW)
    flipped = np.asarray(_called(metric, scene), dtype=float).reshape(len(scene), -1)[:, channels - 1 :: channels]
    with torch.no_grad():
        whole = scene.model(scene.inputs).softmax(dim=1).gather(1, scene.targets[:, None])
    curve = np.concatenate([whole.double().numpy(), flipped], axis=1)
    return [float(one) for one in trapezoid(curve, axis=1) / steps]


def _falls(scene: Scene, order: str, region: int, softmax: bool) -> np.ndarray:
    """The falls of the output after each region, all regions one by one."""
    height, width = scene.maps.shape[1:]
    regions = -(-height // region) * -(-width // region)
    metric = quantus.RegionPerturbation(
        patch_size=region, order=order, regions_evaluation=regions, perturb_baseline=_ZERO, **_RAW
    )
    return np.asarray(_called(metric, scene, softmax=softmax), dtype=float).reshape(len(scene), regions)


def _ordered(order: str) -> Ask:
    def ask(scene: Scene, *, steps: int, fill: str) -> list[float]:
        if fill not in ("mean", "black") or steps != scene.maps[0].numel():
            raise NotOffered(f"{steps} steps with {fill}")
        return [float(one) for one in _falls(scene, order, 1, softmax=False).mean(axis=1)]

    return ask


def _regions(scene: Scene, *, region: int, steps: int, fill: str) -> list[float]:
    falls = _falls(scene, "morf", region, softmax=True)
    if fill != "black" or steps != falls.shape[1]:
        raise NotOffered(f"{steps} steps with {fill}")
    return [float(one) for one in falls.sum(axis=1) / (falls.shape[1] + 1)]  # the untouched picture counts, with no fall


def _road(scene: Scene, *, fractions: Sequence[float]) -> list[float]:
    """The share of samples whose class survives, by percentage, over all samples."""
    shares = _called(quantus.ROAD(percentages=[100 * fraction for fraction in fractions], noise=0.01, **_RAW), scene)
    return [float(np.mean(list(shares.values())))]


def _count(scene: Scene, *, normalised: bool = False) -> list[float]:
    """Maps are normalised one by one; its default takes the maximum of the whole batch."""
    each = {"normalise": normalised, "normalise_func_kwargs": {"normalise_axes": (1, 2, 3)}}
    return _scores(quantus.EffectiveComplexity(**{**_MAGNITUDES, **each}), scene)


def _complete(scene: Scene) -> list[float]:
    """Every channel gets its part of the map, for only channels that have attributions are removed."""
    channels = scene.inputs.shape[1]
    shared = (scene.maps.unsqueeze(1) / channels).expand(-1, channels, -1, -1)
    return _scores(quantus.Completeness(perturb_baseline=_ZERO, **_RAW), scene, softmax=False, attributions=shared)


def _monotone(scene: Scene, *, steps: int, of: str, fill: str) -> list[float]:
    if fill not in ("mean", "black"):
        raise NotOffered(f"a fill of {fill}")
    metric = quantus.Monotonicity(features_in_step=scene.maps[0].numel() // steps, perturb_baseline=_ZERO, **_RAW)
    return _scores(metric, scene, softmax=of == "probability")


def _effects(scene: Scene, *, chunks: int, samples: int, of: str, fill: str) -> list[float]:
    if fill not in ("mean", "black"):
        raise NotOffered(f"a fill of {fill}")
    metric = quantus.MonotonicityCorrelation(
        features_in_step=scene.maps[0].numel() // chunks, nr_samples=samples, perturb_baseline=_ZERO, **_MAGNITUDES
    )
    return _scores(metric, scene, softmax=of == "probability")


def _robustness(scene: Scene, *, samples: int, radius: float, relative: bool) -> list[float]:
    if relative:
        raise NotOffered("a change relative to the map")
    return _scores(quantus.LocalLipschitzEstimate(nr_samples=samples, perturb_std=radius, **_RAW), scene, softmax=False)


def _infidelity(scene: Scene, *, samples: int, size: float) -> list[float]:
    """Its attributions are multiplied by the change of the inputs: on a picture of ones that is our reading too."""
    if not bool((scene.inputs == 1).all()):
        raise NotOffered("contributions in place of gradients")
    channels, side = scene.inputs.shape[1], max(1, round(size * min(scene.inputs.shape[2:])))
    metric = quantus.Infidelity(
        perturb_patch_sizes=[side], n_perturb_samples=samples, perturb_baseline=_ZERO, **_RAW
    )  # fmt: skip
    return _scores(metric, scene.mapped(scene.maps / channels), softmax=False)


def _faithfulness(scene: Scene, *, subsets: int, share: float, of: str) -> list[float]:
    metric = quantus.FaithfulnessCorrelation(
        nr_runs=subsets, subset_size=round(share * scene.maps[0].numel()), perturb_baseline=_ZERO, return_aggregate=False,
        **_RAW,
    )  # fmt: skip
    return _scores(metric, scene, softmax=of == "probability")


_LIKENESS = {
    "pearson": quantus.similarity_func.correlation_pearson,
    "spearman": quantus.similarity_func.correlation_spearman,
    "ssim": quantus.similarity_func.ssim,
}


def _random_logit(scene: Scene, *, likeness: str) -> list[float]:
    with torch.no_grad():
        classes = scene.model(scene.inputs[:1]).shape[1]
    metric = quantus.RandomLogit(similarity_func=_LIKENESS[likeness], num_classes=classes, **_RAW)
    return _scores(metric, scene)


def _randomised(order: str, last: bool = False) -> Ask:
    """The likeness per sample: the mean over stages, or the last stage alone."""

    def ask(scene: Scene, *, likeness: str) -> list[float]:
        metric = quantus.MPRT(
            similarity_func=_LIKENESS[likeness], layer_order=order, return_average_correlation=not last,
            return_last_correlation=last, **_MAGNITUDES,
        )  # fmt: skip
        return _scores(metric, scene, softmax=False)

    return ask


OFFERS: dict[str, Ask] = {
    "complexity": _spread(quantus.Complexity),
    "sparseness": _spread(quantus.Sparseness),
    "max-sensitivity": _sensitivity(quantus.MaxSensitivity),
    "avg-sensitivity": _sensitivity(quantus.AvgSensitivity),
    "deletion": _deletion,
    "morf": _ordered("morf"),
    "lerf": _ordered("lerf"),
    "region-perturbation": _regions,
    "road": _road,
    "completeness:holds": _complete,
    "monotonicity:holds": _monotone,
    "monotonicity-correlation": _effects,
    "faithfulness": _faithfulness,
    "infidelity": _infidelity,
    "robustness": _robustness,
    "random-logit": _random_logit,
    "cascading-randomisation": _randomised("top_down"),
    "independent-randomisation": _randomised("independent"),
    "weight-randomisation": _randomised("top_down", last=True),
    "efficient-randomisation": lambda scene: _scores(quantus.EfficientMPRT(**_RAW), scene),
    "input-invariance:holds": lambda scene: _scores(quantus.InputInvariance(input_shift=-1, **_RAW), scene, softmax=False),
    "effective-complexity-count": _count,
    "pointing-game": lambda scene: _scores(quantus.PointingGame(**_RAW), scene),
    "pointing-game:weighted": lambda scene: _scores(quantus.PointingGame(weighted=True, **_RAW), scene),
    "energy-pointing-game": lambda scene: _scores(quantus.AttributionLocalisation(**_POSITIVE), scene),
    "energy-pointing-game:weighted": lambda scene: _scores(
        quantus.AttributionLocalisation(weighted=True, **_POSITIVE), scene
    ),
    "relevance-mass": lambda scene: _scores(quantus.RelevanceMassAccuracy(**_MAGNITUDES), scene),
    "relevance-rank": lambda scene: _scores(quantus.RelevanceRankAccuracy(**_RAW), scene),
    "plausibility": lambda scene: _scores(quantus.AUC(**_RAW), scene),
}
