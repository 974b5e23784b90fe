"""Controls: maps without any information about the classifier. A good method must score better than all of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Rng, Targets, WithoutClassifier

CONTROLS = ("random", "edge", "fake-cam", "centre")
"""The four controls that verdicts compare methods with."""


@method("random", cite="kim2022", class_specific=False, deterministic=False, control=True)
@dataclass(frozen=True)
class Random(WithoutClassifier):
    """Uniform noise in [0, 1), drawn anew for each sample."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        return rng.uniform("random", tuple(inputs.shape[2:])).to(inputs)


@method("edge", cite="adebayo2018", class_specific=False, control=True)
@dataclass(frozen=True)
class Edge(WithoutClassifier):
    """The gradient magnitude of the grey image at each pixel (Sobel): an edge detector, without any classifier."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        grey = classifier.to_pixels(inputs).mean(dim=1, keepdim=True)
        across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]).to(grey)
        kernels = torch.stack([across, across.T])[:, None]
        steep = functional.conv2d(functional.pad(grey, (1, 1, 1, 1), mode="replicate"), kernels)
        return steep.square().sum(dim=1).sqrt()


@method("fake-cam", cite="poppi2021", class_specific=False, control=True)
@dataclass(frozen=True)
class FakeCam(WithoutClassifier):
    """One everywhere but zero in the top left pixel: an uninformative map that wins average drop."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        maps = torch.ones_like(inputs[:, 0])
        maps[:, 0, 0] = 0
        return maps


@method("constant", cite="poppi2021", class_specific=False, control=True)
@dataclass(frozen=True)
class Constant(WithoutClassifier):
    """One everywhere: a map without any order of pixels, so its scores show how a metric breaks ties."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        return torch.ones_like(inputs[:, 0])


@method(
    "centre",
    cite="judd2009",
    class_specific=False,
    control=True,
    ranges={"sigma": (0.125, 0.5)},
)
@dataclass(frozen=True)
class Centre(WithoutClassifier):
    """A Gaussian in the middle of the image, `sigma` sides wide: photographs often have their subject there."""

    sigma: float = 0.25

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ValueError(f"sigma must be positive, not {self.sigma}")

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        tall, wide = (
            torch.exp(-0.5 * (((torch.arange(side) + 0.5) / side - 0.5) / self.sigma) ** 2) for side in inputs.shape[2:]
        )
        return torch.outer(tall, wide).to(inputs).expand(len(inputs), -1, -1).clone()
