"""Cases where the method explains again: another class, the masked image, a transformed image."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.fixtures import (
    LinearModel,
    ProbabilityModel,
    fake_cam,
    fixed,
    fixture,
    fixture_batch,
    gradient,
    nervous,
    noise,
    picture,
)
from snellen.conformance.reference_cases import batch_independent, better, order_independent, value

# Another class --------------------------------------------------------------------------------------------------------


class Opposed(nn.Module):
    """Two logits, one the negative of the other: the gradient of one class is the negative of the other's."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, inputs: Tensor) -> Tensor:
        """The weighted sum, and its negative."""
        total = (inputs * self.weights).flatten(1).sum(dim=1)
        return torch.stack([total, -total], dim=1)


_SIDE = 8
_OPPOSED = Opposed(noise(_SIDE, _SIDE, seed=21) - 0.5)
_GREY = 0.25 + noise(_SIDE, _SIDE, seed=22) / 2
_SEEING, _BLIND = fixture(_OPPOSED, _GREY, gradient), fixture(_OPPOSED, _GREY, picture)
_FAKE = fixture(_OPPOSED, _GREY, fake_cam)
_PEARSON = {"likeness": "pearson"}
_FOUR = fixture_batch(_OPPOSED, 0.25 + noise(4, 1, _SIDE, _SIDE, seed=23) / 2, picture)

_CLASSES = (
    value("random-logit/opposed", "random-logit", "Two classes with opposite gradients.", _SEEING, -1.0,
          "the correlation of a map with its negative", settings=_PEARSON),
    value("random-logit/blind", "random-logit", "A method that ignores the class.", _BLIND, 1.0,
          "the same map for every class", kind="re-explaining", settings=_PEARSON),
    value("random-logit/fake-cam", "random-logit", "Fake-CAM, by structural similarity.", _FAKE, 1.0,
          "the same map for every class", kind="fake-cam", settings={"likeness": "ssim"}),
    better("random-logit/direction", "random-logit", "The gradient, against a method that ignores the class.", _SEEING,
           _BLIND, "only the first depends on the class", settings=_PEARSON),
    batch_independent("random-logit/batch", "random-logit", _FOUR, settings=_PEARSON),
    order_independent("random-logit/order", "random-logit", _FOUR, settings=_PEARSON),
    value("target-sensitivity/opposed", "target-sensitivity", "Two classes with opposite gradients.", _SEEING, 2.0,
          "1 - (-1)", settings=_PEARSON),
    value("target-sensitivity/blind", "target-sensitivity", "A method that ignores the class.", _BLIND, 0.0, "1 - 1",
          kind="re-explaining"),
    value("target-sensitivity/fake-cam", "target-sensitivity", "Fake-CAM.", _FAKE, 0.0, "1 - 1", kind="fake-cam"),
    better("target-sensitivity/direction", "target-sensitivity", "The gradient, against a method that ignores the class.",
           _SEEING,
           _BLIND, "only the first depends on the class"),
)  # fmt: skip

# The masked image -----------------------------------------------------------------------------------------------------

_LEFT = torch.zeros(4, 4)
_LEFT[:, :2] = 1


def _left(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The left half, always."""
    return _LEFT.expand(len(inputs), 4, 4).clone()


def _switching(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The left half of a whole image, the right half of a masked one."""
    masked = (inputs == 0).flatten(1).any(dim=1)
    return torch.where(masked.view(-1, 1, 1), 1 - _LEFT, _LEFT)


def _left_light(inputs: Tensor) -> Tensor:
    return inputs.mean(dim=1)[:, :, :2].sum(dim=(1, 2))


_EVEN = torch.full((4, 4), 1 / 16)
_HALVES = ProbabilityModel(_left_light)

_MASKED = (
    value("coherency/same", "coherency", "A method that always marks the left half.", fixture(_HALVES, _EVEN, _left), 1.0,
          "(1 + 1) / 2", kind="re-explaining"),
    value("coherency/turned", "coherency", "A method that marks the other half of a masked image.",
          fixture(_HALVES, _EVEN, _switching), 0.0, "(-1 + 1) / 2"),
    value("coherency/fake-cam", "coherency", "Fake-CAM.", fixture(_HALVES, _EVEN, fake_cam), 1.0,
          "the map does not depend on the image, so it is perfectly coherent", kind="fake-cam"),
    better("coherency/direction", "coherency", "The same half again, against the other.", fixture(_HALVES, _EVEN, _left),
           fixture(_HALVES, _EVEN, _switching), "correlations 1 and -1"),
    value("adcc/value", "adcc", "The left half is marked, and is all that matters.", fixture(_HALVES, _EVEN, _left), 0.75,
          "coherency 1, complexity 1/2, no drop: 3 / (1 + 2 + 1)"),
    value("adcc/fake-cam", "adcc", "Fake-CAM, where all pixels matter alike.",
          fixture(ProbabilityModel(lambda inputs: inputs.mean(dim=1).sum(dim=(1, 2))), _EVEN, fake_cam),
          3 / (1 + 16 + 16 / 15),
          "coherency 1, complexity 15/16, drop 1/16: 3 / (1 + 16 + 16/15)", kind="fake-cam"),
    better("adcc/direction", "adcc", "What matters is marked, against what does not.", fixture(_HALVES, _EVEN, _left),
           fixture(_HALVES, _EVEN, 1 - _LEFT, explain=_left), "the second loses all confidence and agrees with nothing"),
    batch_independent("coherency/batch", "coherency", fixture_batch(_OPPOSED, noise(4, 1, _SIDE, _SIDE, seed=24), picture)),
)  # fmt: skip

# Transformed images ---------------------------------------------------------------------------------------------------

_PHOTO = torch.nn.functional.interpolate(noise(1, 1, 5, 5, seed=25), size=(24, 24), mode="bicubic").clamp(0, 1)[0, 0]
_ALWAYS = LinearModel(0.0, bias=1.0)


_FEW = {"likeness": "pearson", "magnitudes": 2}
_FOLLOWS, _STAYS, _NERVOUS = (fixture(_ALWAYS, _PHOTO, method, channels=3) for method in (picture, fixed, nervous))

_TRANSFORMED = (
    better("consistency/direction", "consistency", "The image as map, against one that changes completely with every value.",
           _FOLLOWS, _NERVOUS, "the first moves with the image, and moving it back gives the same map", settings=_FEW),
    better("consistency/fixed", "consistency", "The image as map, against a fixed map.", _FOLLOWS, _STAYS,
           "a map that does not turn with the image is wrong after turning it back", kind="re-explaining", settings=_FEW),
    value("input-consistency/fixed", "input-consistency", "The same map for all images.", _STAYS, 1.0,
          "changes of light and colour move no pixel, and the map stays the same", kind="re-explaining", settings=_FEW),
    better("input-consistency/direction", "input-consistency", "A fixed map, against one that changes completely.",
           _STAYS, _NERVOUS, "the same map, or another one each time", settings=_FEW),
)  # fmt: skip

CASES = (*_CLASSES, *_MASKED, *_TRANSFORMED)
