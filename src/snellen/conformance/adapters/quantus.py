"""Quantus: the metrics that correspond to ours, with `abs` and `normalise` set so that they are the same quantity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.integrate import trapezoid
from torch import Tensor, nn

from snellen.conformance.adapters.workarounds import old_numpy_names, working_torchvision
from snellen.conformance.fixtures import Fixture
from snellen.conformance.toolkit import Compute, NotOffered

working_torchvision()
old_numpy_names()

import quantus  # noqa: E402

_QUIET = {"disable_warnings": True, "display_progressbar": False}
_ZERO = 0.0  # its "black" is the smallest value of the batch
_RAW = {"abs": False, "normalise": False, **_QUIET}
_POSITIVE = {"positive_attributions": True, **_RAW}
_MAGNITUDES = {"abs": True, "normalise": False, **_QUIET}


def _call(metric: Any, fixture: Fixture, *, softmax: bool = True, attributions: Tensor | None = None) -> Any:
    """Calls a metric as in its documentation; arrays are not copied."""
    explain = fixture.explain

    def explained(model: Any, inputs: Any, targets: Any, **rest: Any) -> np.ndarray:
        if explain is None:
            raise NotOffered("a method to explain again")
        images, classes = torch.as_tensor(np.asarray(inputs)).float(), torch.as_tensor(np.asarray(targets)).long()
        return explain(model, images, classes).unsqueeze(1).detach().numpy()

    model = fixture.model
    if fixture.independent and softmax:  # it knows a softmax only, so the model itself gives the probabilities
        model, softmax = nn.Sequential(model, nn.Sigmoid()).eval(), False
    return metric(
        model=model,
        x_batch=fixture.inputs.numpy(),
        y_batch=fixture.targets.numpy(),
        a_batch=(fixture.maps.unsqueeze(1) if attributions is None else attributions).numpy(),
        s_batch=None if fixture.truth is None else fixture.truth.unsqueeze(1).numpy(),
        channel_first=True,
        softmax=softmax,
        device="cpu",
        batch_size=fixture.batch,
        explain_func=explained,
    )


def _scores(metric: Any, fixture: Fixture, **how: Any) -> list[float]:
    return [float(score) for score in np.asarray(_call(metric, fixture, **how), dtype=float).ravel()]


def _concentration(kind: Any) -> Compute:
    def compute(fixture: Fixture) -> Sequence[float]:
        # A map without negative values equals its magnitude, so a user would not set `abs`.
        return _scores(kind(**(_MAGNITUDES if bool((fixture.maps < 0).any()) else _RAW)), fixture)

    return compute


def _sensitivity(kind: Any) -> Compute:
    def compute(fixture: Fixture, *, samples: int, radius: float) -> Sequence[float]:
        return _scores(kind(nr_samples=samples, lower_bound=radius, **_RAW), fixture, softmax=False)

    return compute


def _deletion(fixture: Fixture, *, steps: int, fill: str) -> list[float]:
    """The area under the curve of pixel flipping, over steps from 0 to 1; `steps` must divide the number of pixels.

    Quantus returns the curve from the first flip on, with a point for every channel. The output of the unchanged image is
    put before it, and only points at which all channels of a pixel are removed are used.
    """
    pixels, channels = fixture.maps[0].numel(), fixture.inputs.shape[1]
    if fill not in ("mean", "black") or pixels % steps:
        raise NotOffered(f"deletion in {steps} steps with {fill}")
    metric = quantus.PixelFlipping(features_in_step=pixels // steps, perturb_baseline=_ZERO, **_RAW)
    flipped = np.asarray(_call(metric, fixture), dtype=float).reshape(len(fixture), -1)[:, channels - 1 :: channels]
    with torch.no_grad():
        whole = fixture.probabilities(fixture.model(fixture.inputs)).gather(1, fixture.targets[:, None])
    curve = np.concatenate([whole.double().numpy(), flipped], axis=1)
    return [float(area) for area in trapezoid(curve, axis=1) / steps]


def _falls(fixture: Fixture, order: str, region: int, softmax: bool) -> np.ndarray:
    """The falls of the output after each region, all regions one by one."""
    height, width = fixture.maps.shape[1:]
    regions = -(-height // region) * -(-width // region)
    metric = quantus.RegionPerturbation(
        patch_size=region, order=order, regions_evaluation=regions, perturb_baseline=_ZERO, **_RAW
    )
    return np.asarray(_call(metric, fixture, softmax=softmax), dtype=float).reshape(len(fixture), regions)


def _ordered(order: str) -> Compute:
    def compute(fixture: Fixture, *, steps: int, fill: str) -> list[float]:
        if fill not in ("mean", "black") or steps != fixture.maps[0].numel():
            raise NotOffered(f"{steps} steps with {fill}")
        return [float(fall) for fall in _falls(fixture, order, 1, softmax=False).mean(axis=1)]

    return compute


def _regions(fixture: Fixture, *, region: int, steps: int, fill: str) -> list[float]:
    falls = _falls(fixture, "morf", region, softmax=True)
    if fill != "black" or steps != falls.shape[1]:
        raise NotOffered(f"{steps} steps with {fill}")
    return [float(fall) for fall in falls.sum(axis=1) / (falls.shape[1] + 1)]  # the untouched image counts, with no fall


def _road(fixture: Fixture, *, fractions: Sequence[float]) -> list[float]:
    """The share of samples whose class survives, by percentage, over all samples."""
    if fixture.independent:
        raise NotOffered("road for labels: it compares the most likely class")
    shares = _call(quantus.ROAD(percentages=[100 * fraction for fraction in fractions], noise=0.01, **_RAW), fixture)
    return [float(np.mean(list(shares.values())))]


def _count(fixture: Fixture, *, normalised: bool = False) -> list[float]:
    """Maps are normalised one by one; its default takes the maximum of the whole batch."""
    each = {"normalise": normalised, "normalise_func_kwargs": {"normalise_axes": (1, 2, 3)}}
    return _scores(quantus.EffectiveComplexity(**{**_MAGNITUDES, **each}), fixture)


def _complete(fixture: Fixture) -> list[float]:
    """Every channel gets its part of the map, because only channels with attributions are removed."""
    channels = fixture.inputs.shape[1]
    parts = (fixture.maps.unsqueeze(1) / channels).expand(-1, channels, -1, -1)
    return _scores(quantus.Completeness(perturb_baseline=_ZERO, **_RAW), fixture, softmax=False, attributions=parts)


def _monotone(fixture: Fixture, *, steps: int, of: str, fill: str) -> list[float]:
    if fill not in ("mean", "black"):
        raise NotOffered(f"a fill of {fill}")
    metric = quantus.Monotonicity(features_in_step=fixture.maps[0].numel() // steps, perturb_baseline=_ZERO, **_RAW)
    return _scores(metric, fixture, softmax=of == "probability")


def _effects(fixture: Fixture, *, chunks: int, samples: int, of: str, fill: str) -> list[float]:
    if fill not in ("mean", "black"):
        raise NotOffered(f"a fill of {fill}")
    metric = quantus.MonotonicityCorrelation(
        features_in_step=fixture.maps[0].numel() // chunks, nr_samples=samples, perturb_baseline=_ZERO, **_MAGNITUDES
    )
    return _scores(metric, fixture, softmax=of == "probability")


def _robustness(fixture: Fixture, *, samples: int, radius: float, relative: bool) -> list[float]:
    if relative:
        raise NotOffered("a change relative to the map")
    return _scores(quantus.LocalLipschitzEstimate(nr_samples=samples, perturb_std=radius, **_RAW), fixture, softmax=False)


def _infidelity(fixture: Fixture, *, samples: int, size: float) -> list[float]:
    """Its attributions are multiplied by the change of the inputs: on an image of ones that is our reading too."""
    if not bool((fixture.inputs == 1).all()):
        raise NotOffered("contributions in place of gradients")
    channels, side = fixture.inputs.shape[1], max(1, round(size * min(fixture.inputs.shape[2:])))
    metric = quantus.Infidelity(
        perturb_patch_sizes=[side], n_perturb_samples=samples, perturb_baseline=_ZERO, **_RAW
    )  # fmt: skip
    return _scores(metric, fixture.with_maps(fixture.maps / channels), softmax=False)


def _faithfulness(fixture: Fixture, *, subsets: int, share: float, of: str) -> list[float]:
    metric = quantus.FaithfulnessCorrelation(
        nr_runs=subsets, subset_size=round(share * fixture.maps[0].numel()), perturb_baseline=_ZERO, return_aggregate=False,
        **_RAW,
    )  # fmt: skip
    return _scores(metric, fixture, softmax=of == "probability")


_LIKENESS = {
    "pearson": quantus.similarity_func.correlation_pearson,
    "spearman": quantus.similarity_func.correlation_spearman,
    "ssim": quantus.similarity_func.ssim,
}


def _random_logit(fixture: Fixture, *, likeness: str) -> list[float]:
    with torch.no_grad():
        classes = fixture.model(fixture.inputs[:1]).shape[1]
    metric = quantus.RandomLogit(similarity_func=_LIKENESS[likeness], num_classes=classes, **_RAW)
    return _scores(metric, fixture)


def _randomised(order: str, last: bool = False) -> Compute:
    """The likeness per sample: the mean over stages, or the last stage alone."""

    def compute(fixture: Fixture, *, likeness: str) -> list[float]:
        metric = quantus.MPRT(
            similarity_func=_LIKENESS[likeness], layer_order=order, return_average_correlation=not last,
            return_last_correlation=last, **_MAGNITUDES,
        )  # fmt: skip
        return _scores(metric, fixture, softmax=False)

    return compute


OFFERS: dict[str, Compute] = {
    "complexity": _concentration(quantus.Complexity),
    "sparseness": _concentration(quantus.Sparseness),
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
    "efficient-randomisation": lambda fixture: _scores(quantus.EfficientMPRT(**_RAW), fixture),
    "input-invariance:holds": lambda fixture: _scores(
        quantus.InputInvariance(input_shift=-1, **_RAW), fixture, softmax=False
    ),
    "effective-complexity-count": _count,
    "pointing-game": lambda fixture: _scores(quantus.PointingGame(**_RAW), fixture),
    "pointing-game:weighted": lambda fixture: _scores(quantus.PointingGame(weighted=True, **_RAW), fixture),
    "energy-pointing-game": lambda fixture: _scores(quantus.AttributionLocalisation(**_POSITIVE), fixture),
    "energy-pointing-game:weighted": lambda fixture: _scores(
        quantus.AttributionLocalisation(weighted=True, **_POSITIVE), fixture
    ),
    "relevance-mass": lambda fixture: _scores(quantus.RelevanceMassAccuracy(**_MAGNITUDES), fixture),
    "relevance-rank": lambda fixture: _scores(quantus.RelevanceRankAccuracy(**_RAW), fixture),
    "plausibility": lambda fixture: _scores(quantus.AUC(**_RAW), fixture),
}
