"""DeepSHAP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fitted_state import read_fitted_state
from snellen.methods import rescale_rule
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Passes, Rng, Targets


@method(
    "deepshap",
    cite="lundberg2017",
    family="relevance-propagation",
    signed=True,
    needs={"gradients", "layer", "training-data"},
    presets={"kim2022": {"backgrounds": 1000}},
    ranges={"backgrounds": (4, 8, 64)},
    version=2,
)
@dataclass(frozen=True)
class DeepShap:
    """Each pixel's share of the rise from the mean logit of background images to the image's logit.

    It is the mean of `deeplift-rescale` over backgrounds: a random choice among the user's own images, made once when the
    method is fitted to them.
    """

    backgrounds: int = 16
    """Number of background images."""

    def __post_init__(self) -> None:
        if self.backgrounds < 1:
            raise ValueError(f"backgrounds must be at least 1, not {self.backgrounds}")

    def fit_key(self) -> str:
        """The choice depends on the number of backgrounds alone."""
        return f"backgrounds {self.backgrounds}"

    def fit(
        self, classifier: Classifier, images: Iterable[Float[Tensor, "_ channels height width"]], *, rng: Rng
    ) -> dict[str, Tensor]:
        """A random choice of images as pixels, by reservoir sampling: never more than `backgrounds` are held."""
        backgrounds: list[Tensor] = []
        draw = rng.shared(self.fit_key())
        count = 0
        for batch in images:
            for image in classifier.to_pixels(batch):
                if count < self.backgrounds:
                    backgrounds.append(image.clone())
                elif (index := int(draw.integers(0, count + 1))) < self.backgrounds:
                    backgrounds[index] = image.clone()
                count += 1
        if not backgrounds:
            raise SnellenError("deepshap chooses backgrounds among the images that it is fitted to, but there are none")
        return {"backgrounds": torch.stack(backgrounds)}

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier with an operation that the rule does not cover."""
        rescale_rule.check_operations("deepshap", classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Image and background forward, the image backward, once per background."""
        state = classifier.fitted_state.get(self.fit_key())
        count = self.backgrounds if state is None else len(state["backgrounds"])
        return Passes(2 * count, count)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        classifier.module  # noqa: B018  a black box is refused as such, fitted or not
        backgrounds = classifier.to_inputs(read_fitted_state(self, classifier)["backgrounds"].to(inputs))
        if backgrounds.shape[1:] != inputs.shape[1:]:
            stored, own = ("×".join(map(str, images.shape[1:])) for images in (backgrounds, inputs))
            raise SnellenError(
                f"deepshap keeps backgrounds of {stored}, but the inputs are of {own}; fit it to images of that size"
            )
        total = torch.zeros_like(inputs[:, 0])
        count = max(1, classifier.rows_for(inputs, gradients=True) // (2 * len(inputs)))
        for part in backgrounds.split(count):
            image = inputs.repeat_interleave(len(part), dim=0)
            shares = rescale_rule.shares(
                "deepshap", classifier, image, part.repeat(len(inputs), 1, 1, 1), targets.repeat_interleave(len(part))
            )
            total += shares.sum(dim=1).view(len(inputs), len(part), *total.shape[1:]).sum(dim=1)
        return total / len(backgrounds)
