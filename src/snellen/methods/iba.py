"""Information bottleneck attribution."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fitted_state import read_fitted_state
from snellen.methods.class_activation import Features
from snellen.methods.descent import Adam
from snellen.plugins.registry import label, method
from snellen.plugins.traits import LAYERS
from snellen.types import Images, Maps, Passes, Rng, Targets

Batches = Float[Tensor, "_ channels height width"]
Mixed = Float[Tensor, "pairs features rows columns"]

START = 5.0
"""Where the optimisation starts: sigmoid(5) lets 99.3 % of a feature through."""

RATE = 1.0
"""Length of a step of the gradient descent."""
LEAST_SPREAD = 0.01
"""Smallest standard deviation of a feature; smaller ones are taken as this."""
LEAST_USE = 0.01
"""A feature that is zero in all but this share of the images carries nothing and is left out."""


@method(
    "iba",
    cite="schulz2020",
    family="perturbation",
    deterministic=False,
    needs={"gradients", "layer", "training-data"},
    needs_output="probability",
    # The authors' code reads its map before the last of ten updates, so the tenth never shows.
    presets={"schulz2020": {"steps": 9}, "zhang2024": {"steps": 9}},
    caveats={
        "schulz2020": "The resolution is that of the layer, and the bits are an upper bound that rests on features being "
        "independent and normally distributed",
    },
    ranges={"layer": LAYERS, "beta": (1.0, 100.0), "steps": (5, 20), "samples": (5, 20), "sigma": (0.5, 2.0)},
)
@dataclass(frozen=True)
class Iba:
    """How many bits per pixel must pass a layer, when noise may replace all features that the target can do without.

    Each feature is mixed with noise that has the mean and spread of that feature over the user's images; the mixture is
    optimised by gradient descent on the target's cross-entropy plus `beta` times the mean information.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""
    beta: float = 10.0
    steps: int = 10
    """Number of gradient steps."""
    samples: int = 10
    """Number of noisy copies of each image per step."""
    sigma: float = 1.0
    """Standard deviation, in cells of the layer, of the Gaussian that smooths the mixture; 0 for none."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.samples < 1:
            raise ValueError(f"steps and samples must be at least 1, not {self.steps} and {self.samples}")
        if self.beta < 0 or self.sigma < 0:
            raise ValueError(f"beta and sigma must not be negative, not {self.beta} and {self.sigma}")

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Finds the layer; refuses one that does not exist or has no spatial positions."""
        classifier.layer_shape(inputs, self.layer_in(classifier, inputs))

    def layer_in(self, classifier: Classifier, inputs: Images) -> str:
        """The name of the layer that gets the bottleneck; by default the last one with spatial positions."""
        return self.layer or classifier.feature_layer(inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward; where the rest of the model cannot run alone, one more forward and backward per sample and step."""
        inputs = torch.zeros(1, classifier.channels, *size)
        alone = classifier.layer_to_logits(inputs, self.layer_in(classifier, inputs)) is not None
        return Passes(forward=1 if alone else 1 + self.steps * self.samples)

    def fit_key(self) -> str:
        """The statistics of the layer."""
        return f"mean and spread of {self.layer or 'the last features with places'}"

    def fit(self, classifier: Classifier, images: Iterable[Batches], *, rng: Rng) -> dict[str, Tensor]:
        """Mean, standard deviation and share of images with any activity, for each feature at each position."""
        count, mean, square, used = 0, torch.zeros(()), torch.zeros(()), torch.zeros(())
        for inputs in images:
            features = classifier.layer_features(inputs, self.layer_in(classifier, inputs)).double().cpu()
            if count and features.shape[1:] != mean.shape:
                raise SnellenError("iba is fitted to images of one size only; give the size that the classifier takes")
            batch_mean = features.mean(dim=0)
            total = count + len(features)
            # Chan, Golub, LeVeque 1979: the sums of squares of two parts, joined without loss of digits.
            gap = batch_mean - mean
            square = square + (features - batch_mean).square().sum(dim=0) + gap.square() * (count * len(features) / total)
            mean = mean + gap * (len(features) / total)
            used = used + (features != 0).double().sum(dim=0)
            count = total
        if count == 0:
            raise SnellenError("iba cannot be fitted to no images; give some")
        spread = (square / max(1, count - 1)).sqrt()
        return {"mean": mean.float(), "spread": spread.float(), "used": (used / count).float()}

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        layer = self.layer_in(classifier, inputs)
        state = {name: values.to(inputs) for name, values in read_fitted_state(self, classifier).items()}
        features = classifier.layer_features(inputs, layer)
        if state["mean"].shape != features.shape[1:]:
            raise SnellenError(
                f"{label(self)} was fitted to images of another size; fit it to images of {inputs.shape[2]}×"
                f"{inputs.shape[3]} pixels"
            )
        mean, spread = state["mean"], state["spread"].clamp_min(LEAST_SPREAD)
        used = (state["used"] > LEAST_USE).to(features)
        normal = (features - mean) / spread
        alpha, adam = torch.full_like(features, START), Adam(RATE)
        rows = classifier.resume_rows(inputs, layer)
        for step in range(self.steps):
            share, rest = self._shares(alpha)
            # The slope of beta times the mean information along the shares, then that of the mean cross-entropy.
            slope = (share * normal.square() - rest + 1 / rest) * used * (self.beta / features[0].numel())
            for first in range(0, len(inputs) * self.samples, rows):
                pairs = range(first, min(first + rows, len(inputs) * self.samples))
                owners = torch.tensor([pair // self.samples for pair in pairs], device=inputs.device)
                noise = mean + spread * _noise(rng, pairs, self.samples, step, features)
                difference = (features[owners] - noise) * used
                mixed = noise * used + share[owners] * difference
                gradient = _cross_entropy_gradient(classifier, inputs, layer, mixed, owners, targets)
                slope.index_add_(0, owners, gradient * difference / self.samples)
            alpha = adam.step(alpha, self._smooth(slope, back=True) * alpha.sigmoid() * (-alpha).sigmoid())
        share, rest = self._shares(alpha)
        # The Kullback-Leibler divergence from the mixture to pure noise (equation 6 of the paper).
        nats = 0.5 * ((share * normal).square() + rest.square() - 1 - 2 * rest.log()) * used
        tall, wide = inputs.shape[2:]
        bits = nats.sum(dim=1, keepdim=True) / math.log(2) * (nats.shape[2] * nats.shape[3] / (tall * wide))
        return functional.interpolate(bits, size=(tall, wide), mode="bilinear", align_corners=False).squeeze(1)

    def _shares(self, alpha: Features) -> tuple[Features, Features]:
        """What share of each feature passes and what share is noise; both are computed, as 1 - share would lose digits."""
        return self._smooth(alpha.sigmoid()), self._smooth((-alpha).sigmoid())

    def _smooth(self, shares: Features, *, back: bool = False) -> Features:
        """Smoothing over positions; `back` propagates a gradient through it."""
        if self.sigma == 0:
            return shares
        down, across = (_mirrored_gaussian(side, self.sigma).to(shares) for side in shares.shape[2:])
        down, across = (down, across) if back else (down.T, across.T)
        return ((shares @ across).transpose(2, 3) @ down).transpose(2, 3)


def _noise(rng: Rng, pairs: range, samples: int, step: int, features: Features) -> Mixed:
    """Fresh noise for each (image, sample) pair of this step."""
    first, last = pairs.start // samples, (pairs.stop - 1) // samples + 1
    ids = rng[first:last].repeat(range(samples))
    return (
        ids[pairs.start - first * samples : pairs.stop - first * samples]
        .normal(f"iba {step}", tuple(features.shape[1:]))
        .to(features)
    )


def _cross_entropy_gradient(
    classifier: Classifier,
    inputs: Images,
    layer: str,
    mixed: Mixed,
    owners: Int[Tensor, " pairs"],
    targets: Targets,
) -> Mixed:
    """The gradient of each row's cross-entropy with its owner's target, at the layer."""
    with torch.enable_grad():
        leaf = mixed.detach().requires_grad_()
        logits = classifier.resume(inputs, layer, leaf, owners)
        loss = classifier.head.loss(logits, targets[owners])
        (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def _mirrored_gaussian(side: int, sigma: float) -> Float[Tensor, "side side"]:
    """Smoothing along one axis as a matrix; what lies outside is mirrored without repeating the border."""
    reach = round(2 * sigma)
    weights = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)
    period = max(1, 2 * (side - 1))
    places = (torch.arange(side)[:, None] + torch.arange(-reach, reach + 1)) % period
    places = torch.where(places < side, places, period - places)
    matrix = torch.zeros(side, side)
    matrix.scatter_add_(1, places, (weights / weights.sum()).expand(side, -1))
    return matrix
