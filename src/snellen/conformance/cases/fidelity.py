"""Cases where the map predicts changes of the output: faithfulness, calibration, infidelity; and stability."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.fixtures import (
    Fixture,
    LinearModel,
    fake_cam,
    fixture,
    fixture_batch,
    gradient,
    input_x_gradient,
    nervous,
    noise,
)
from snellen.conformance.reference_cases import batch_independent, better, order_independent, same, value

_WEIGHTS = noise(4, 4, seed=26) - 0.25
_LINEAR = LinearModel(_WEIGHTS)
_PHOTO = 0.25 + noise(4, 4, seed=27) / 2

# Faithfulness ---------------------------------------------------------------------------------------------------------

_SETS = {"subsets": 40, "share": 0.25, "of": "logit"}
_TRUE = fixture(_LINEAR, _PHOTO, input_x_gradient)
_FOUR = fixture_batch(_LINEAR, noise(4, 1, 4, 4, seed=28), input_x_gradient)

_FAITHFUL = (
    value("faithfulness/value", "faithfulness", "A linear model; the map is input times weight.", _TRUE, 1.0,
          "each set of pixels takes away what the map says", settings=_SETS),
    value("faithfulness/sign", "faithfulness", "The negative of input times weight.", _TRUE.with_maps(-_TRUE.maps), -1.0,
          "the opposite of what each set takes away", kind="sign", settings=_SETS),
    value("faithfulness/scaling", "faithfulness", "Ten times input times weight.", _TRUE.with_maps(10 * _TRUE.maps), 1.0,
          "a correlation has no unit", kind="scaling", settings=_SETS),
    value("faithfulness/channels", "faithfulness", "Input times weight, in three equal channels.",
          fixture(_LINEAR, _PHOTO, input_x_gradient, channels=3), 1.0, "each set of pixels takes away what the map says",
          kind="channels", settings=_SETS),
    better("faithfulness/oracle", "faithfulness", "Input times weight, against a random map.", _TRUE,
           _TRUE.with_maps(noise(4, 4, seed=29)), "only the first is in proportion to the losses", settings=_SETS),
    value("faithfulness/batch", "faithfulness", "Four images under a linear model.", _FOUR, (1.0,) * 4,
          "each is exact by itself", kind="batch", settings=_SETS),
)  # fmt: skip

# Luminosity calibration -----------------------------------------------------------------------------------------------

_CELLS = {"cells": 2, "of": "logit"}
_PAIR = fixture(LinearModel(), [[0.25, 0.75]], [[1.0, 3.0]])
_SQUARE = torch.full((2, 2), 0.5)

_CALIBRATED = (
    value("luminosity-calibration/value", "luminosity-calibration", "f = Σx of 1/4 and 3/4; the map says 3 and 1.",
          _PAIR.with_maps(torch.tensor([[3.0, 1.0]])), 0.5, "shares 3/4, 1/4 against 1/4, 3/4: 1 - (1/2 + 1/2) / 2",
          settings=_CELLS),
    value("luminosity-calibration/exact", "luminosity-calibration", "f = Σx of 1/4 and 3/4, mapped by 1 and 3.", _PAIR, 1.0,
          "the same shares", settings=_CELLS),
    value("luminosity-calibration/fake-cam", "luminosity-calibration", "Fake-CAM, where four pixels matter alike.",
          fixture(LinearModel(), _SQUARE, fake_cam), 0.75, "shares 0, 1/3, 1/3, 1/3 against 1/4 each: 1 - (1/4 + 3/12) / 2",
          kind="fake-cam", settings=_CELLS),
    better("luminosity-calibration/oracle", "luminosity-calibration", "The light in proportion, against in reverse.", _PAIR,
           _PAIR.with_maps(torch.tensor([[3.0, 1.0]])), "shares that agree, and shares exchanged", settings=_CELLS),
    batch_independent("luminosity-calibration/batch", "luminosity-calibration",
              fixture_batch(LinearModel(), noise(4, 1, 4, 4, seed=30), noise(4, 4, 4, seed=31)), settings=_CELLS),
)  # fmt: skip

# Infidelity -----------------------------------------------------------------------------------------------------------


class Brightest(nn.Module):
    """Two logits: the brightest pixel, and 0. It does not change while one bright pixel is left."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """The maximum in column 0."""
        best = inputs.flatten(1).amax(dim=1) + 0 * self.anchor
        return torch.stack([best, torch.zeros_like(best)], dim=1)


def _ones(maps: Tensor, *, model: nn.Module = _LINEAR, channels: int = 1) -> Fixture:
    """An image of ones, on which a removal and the change of its inputs are the same."""
    return fixture(model, torch.ones(maps.shape), maps, channels=channels)


_SQUARES = {"samples": 8, "size": 0.5}
_SCALED = {**_SQUARES, "scaled": True}
_ALL = {"samples": 2, "size": 1.0}
_SUM = float(_WEIGHTS.sum())
_FIVE = noise(5, 5, seed=32)

_INFIDELITY = (
    value("infidelity/value", "infidelity", "A linear model on ones; the map is its weights.", _ones(_WEIGHTS), 0.0,
          "each square takes away what the map says", settings=_SQUARES),
    value("infidelity/double", "infidelity", "Twice the weights; the whole image goes.", _ones(2 * _WEIGHTS), _SUM**2,
          "(2 Σw - Σw)²", kind="scaling", settings=_ALL),
    value("infidelity/scaled", "infidelity", "Ten times the weights, with the best factor.", _ones(10 * _WEIGHTS), 0.0,
          "a factor of 1/10 makes it exact", kind="scaling", settings=_SCALED),
    value("infidelity/independent", "infidelity", "f is the brightest of sixteen ones; the map says 1/16 each.",
          _ones(torch.full((4, 4), 1 / 16) + torch.eye(4) * 1e-7, model=Brightest()), 1 / 16,
          "a square of four predicts 1/4 and changes nothing: (1/4)², for every single square", tolerance=1e-4,
          settings=_SQUARES),
    value("infidelity/odd", "infidelity", "A linear model on five pixels a side, which no square of 2×2 divides.",
          _ones(_FIVE, model=LinearModel(_FIVE)), 0.0, "each square takes away what the map says",
          settings={"samples": 8, "size": 0.4}),
    value("infidelity/channels", "infidelity", "Weights shared by three channels; the map is their sum.",
          _ones(3 * _WEIGHTS, channels=3), 0.0, "each square takes away three times its weights", kind="channels",
          settings=_SQUARES),
    better("infidelity/oracle", "infidelity", "The weights, against their negative.", _ones(_WEIGHTS), _ones(-_WEIGHTS),
           "the first is exact", settings=_SQUARES),
    value("infidelity/batch", "infidelity", "Four equal images of ones under a linear model.",
          _ones(_WEIGHTS).rows([0, 0, 0, 0]), (0.0,) * 4, "each is exact by itself", kind="batch", settings=_SQUARES),
)  # fmt: skip

# Stability ------------------------------------------------------------------------------------------------------------

_ALWAYS = LinearModel(_WEIGHTS, bias=100.0)


_STABLE = (
    value("stability/linear", "stability", "The gradient of a linear model.", fixture(_ALWAYS, _PHOTO, gradient), 1.0,
          "its gradient is the same everywhere"),
    value("stability/fake-cam", "stability", "Fake-CAM, run again.", fixture(_ALWAYS, _PHOTO, fake_cam), 1.0,
          "the map does not depend on the image", kind="re-explaining"),
    better("stability/direction", "stability", "The gradient, against a map that changes completely with every value.",
           fixture(_ALWAYS, _PHOTO, gradient), fixture(_ALWAYS, _PHOTO, nervous), "the first never moves"),
    order_independent("stability/order", "stability", fixture_batch(_ALWAYS, noise(3, 1, 4, 4, seed=33), input_x_gradient)),
    same("stability/scaling", "stability", "scaling", "A linear model, and the same in ten times the unit.",
         fixture(_ALWAYS, _PHOTO, gradient), fixture(LinearModel(10 * _WEIGHTS, bias=100.0), _PHOTO, gradient),
         "only the order of the pixels counts"),
)  # fmt: skip

CASES = (*_FAITHFUL, *_CALIBRATED, *_INFIDELITY, *_STABLE)
