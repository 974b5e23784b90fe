"""Controls made of another method's map: blurred, or with its pixels shuffled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.methods.gradient import Gradient
from snellen.methods.wrapping import inner_passes, prepare_inner, take_over
from snellen.plugins.registry import method, traits
from snellen.plugins.traits import TraitEvidence
from snellen.types import Images, Maps, Method, Rng, Targets

GRADIENT = Gradient()


@method(
    "blurred",
    cite="song2023",
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5),
    control=True,
    needs={"gradients"},
    ranges={"of": ("input-x-gradient", "grad-cam"), "sigma": (0.02, 0.1)},
)
@dataclass(frozen=True)
class Blurred:
    """Another method's map blurred by a Gaussian `sigma` sides wide: it holds no more information than that map.

    Blurring adds nothing about the classifier, yet benchmarks that remove pixels tend to prefer blurry maps.
    """

    of: Method = GRADIENT
    sigma: float = 0.05

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ValueError(f"sigma must be positive, not {self.sigma}")
        inner = traits(self.of)
        take_over(self, signed=inner.signed, deterministic=inner.deterministic, control=True)

    prepare = prepare_inner
    passes = inner_passes

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        maps = self.of(classifier, inputs, targets, rng=rng)[:, None]
        tall, wide = (_gaussian(self.sigma * side).to(maps) for side in maps.shape[2:])
        padding = (len(wide) // 2, len(wide) // 2, len(tall) // 2, len(tall) // 2)
        # The border repeats outwards: zeros there would darken the rim and the sum of the map.
        padded = functional.pad(maps, padding, mode="replicate")
        return functional.conv2d(functional.conv2d(padded, tall[None, None, :, None]), wide[None, None, None])[:, 0]


@method(
    "shuffled",
    cite="tomsett2020",
    version=2,
    deterministic=False,
    implementation_invariant=TraitEvidence(0.01, images=16, networks=4),
    control=True,
    needs={"gradients"},
    ranges={"of": ("input-x-gradient", "grad-cam")},
)
@dataclass(frozen=True)
class Shuffled:
    """Another method's values, each at a random pixel: the same histogram, without any position.

    Which pixel gets the largest value, the second largest and so on is drawn per image, whatever the class and the
    classifier. Were the pixels of all maps of an image permuted alike instead, the maps would stay as similar as the
    wrapped ones, and the control would seem to depend on class and model as they do; were they permuted anew for each map,
    it would seem to depend on both perfectly. It still depends on the histogram: a map of few values other than zero that
    becomes one of many changes here too.
    """

    of: Method = GRADIENT

    def __post_init__(self) -> None:
        take_over(self, signed=traits(self.of).signed, deterministic=False, control=True)

    prepare = prepare_inner
    passes = inner_passes

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        maps = self.of(classifier, inputs, targets, rng=rng)
        # Ties among so many 24-bit draws are rare, and a stable sort breaks them the same way each time.
        order = rng.uniform("shuffled", (maps[0].numel(),)).argsort(dim=1, stable=True).to(maps.device)
        return maps.flatten(1).sort(dim=1, descending=True).values.gather(1, order).view_as(maps)


def _gaussian(sigma: float) -> Float[Tensor, " taps"]:
    """Weights that sum to one, out to four standard deviations."""
    reach = max(1, math.ceil(4 * sigma))
    weights = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)
    return weights / weights.sum()
