"""Cases where pixels or regions are removed: morf, lerf, region perturbation, road, sufficiency and minimality."""

from __future__ import annotations

import torch
from torch import Tensor

from snellen.conformance.fixtures import (
    Fixture,
    LinearModel,
    ProbabilityModel,
    both,
    fake_cam,
    fixture,
    fixture_batch,
    grid,
    noise,
    total,
)
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, order_independent, same, value

_STEPS = {"steps": 16, "fill": "mean"}
_LIT = grid({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25})
_RIGHT = grid({(0, 0): 4.0, (0, 1): 3.0, (1, 0): 2.0, (1, 1): 1.0})
_ENDS = grid({(0, 0): 1.0, (3, 3): 1.0})
_LOGIT, _SUM, _AND = LinearModel(), ProbabilityModel(total), ProbabilityModel(both((0, 0), (3, 3)))
_FIRST, _LAST = fixture(_LOGIT, _LIT, _RIGHT), fixture(_LOGIT, _LIT, -_RIGHT)


def _several(channels: int = 1) -> Fixture:
    inputs = noise(5, 1, 4, 4, seed=14).repeat(1, channels, 1, 1) / 16 / channels
    maps = noise(5, 4, 4, seed=15)
    maps[2] *= 1000
    return fixture_batch(_LOGIT, inputs, maps)


# Most and least relevant first ----------------------------------------------------------------------------------------


def _of_each(metric: str) -> tuple[ReferenceCase, ...]:
    return (
        better(f"{metric}/oracle", metric, "The bright pixels are the most salient, against the least.", _FIRST, _LAST,
               "f = Σx falls soonest when the bright pixels go first", settings=_STEPS),
        better(f"{metric}/noise", metric, "The bright pixels are the most salient, against a random map.", _FIRST,
               fixture(_LOGIT, _LIT, noise(4, 4, seed=40)), "no order makes f = Σx fall sooner", settings=_STEPS),
        batch_independent(f"{metric}/batch", metric, _several(), settings=_STEPS),
        order_independent(f"{metric}/order", metric, _several(), settings=_STEPS),
        same(f"{metric}/channels", metric, "channels", "Grey images, and the same light spread over three channels.",
             _several(), _several(3), "a pixel goes with all of its channels", settings=_STEPS),
        same(f"{metric}/scaling", metric, "scaling", "A map m, and 3 m + 1.", _FIRST, _FIRST.with_maps(3 * _RIGHT + 1),
             "only the order of the pixels counts", settings=_STEPS),
    )  # fmt: skip


_ORDER = (
    value("morf/value", "morf", "f = Σx; four pixels of 1/4 go first, one at a time.", _FIRST, 14.5 / 16,
          "falls of 1/4, 1/2, 3/4, then 1 thirteen times, over 16", settings=_STEPS),
    value("morf/sign", "morf", "A bright pixel has the largest magnitude and a negative sign.",
          fixture(_LOGIT, _LIT, grid({(0, 0): -9.0, (0, 1): 3.0, (1, 0): 2.0, (1, 1): 1.0})), 11.5 / 16,
          "it goes last: (1/4 + 1/2 + 13 · 3/4 + 1) / 16", kind="sign", settings=_STEPS),
    value("lerf/value", "lerf", "f = Σx; the four pixels of 1/4 go last.", _FIRST, 2.5 / 16,
          "no fall twelve times, then 1/4, 1/2, 3/4, 1, over 16", settings=_STEPS),
    *_of_each("morf"),
    *_of_each("lerf"),
)  # fmt: skip

# Regions --------------------------------------------------------------------------------------------------------------

_REGIONS = {"region": 2, "steps": 4, "fill": "black"}
_ODD = {"region": 2, "steps": 9, "fill": "black"}
_REGION_FIRST, _REGION_LAST = fixture(_SUM, _LIT, _RIGHT), fixture(_SUM, _LIT, -_RIGHT)
_FIVE = grid({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25}, side=5)


def _squares(channels: int = 1) -> Fixture:
    return fixture_batch(_SUM, noise(4, 1, 4, 4, seed=16).repeat(1, channels, 1, 1) / 16, noise(4, 4, 4, seed=17))


_REGION = (
    value("region-perturbation/value", "region-perturbation", "f = Σx; all light is in the first of four regions to go.",
          _REGION_FIRST, 4 / 5, "falls 0, 1, 1, 1, 1, the untouched image included", settings=_REGIONS),
    value("region-perturbation/last", "region-perturbation", "f = Σx; all light is in the last of four regions to go.",
          _REGION_LAST, 1 / 5, "falls 0, 0, 0, 0, 1", settings=_REGIONS),
    value("region-perturbation/odd", "region-perturbation", "Five pixels a side, which no region of 2×2 divides.",
          fixture(_SUM, _FIVE, _FIVE), 9 / 10, "nine regions, those at the rim smaller: falls 0, then 1 nine times",
          settings=_ODD),
    better("region-perturbation/oracle", "region-perturbation", "The bright region first, against last.", _REGION_FIRST,
           _REGION_LAST, "f = Σx falls soonest when the light goes first", settings=_REGIONS),
    better("region-perturbation/noise", "region-perturbation", "The bright region first, against a random order.",
           _REGION_FIRST, fixture(_SUM, _LIT, noise(4, 4, seed=45)), "no order makes f = Σx fall sooner", settings=_REGIONS),
    batch_independent("region-perturbation/batch", "region-perturbation", _squares(), settings=_REGIONS),
    order_independent("region-perturbation/order", "region-perturbation", _squares(), settings=_REGIONS),
    same("region-perturbation/channels", "region-perturbation", "channels", "Grey images, and the same in three channels.",
         _squares(), _squares(3), "a region goes with all of its channels", settings=_REGIONS),
)  # fmt: skip

# Filled in from the neighbours ----------------------------------------------------------------------------------------


def block(inputs: Tensor) -> Tensor:
    """The probability of the class is high when the block at the top left is bright: 0.1 + 0.8 times its mean."""
    return 0.1 + 0.8 * inputs[:, :, :2, :2].mean(dim=(1, 2, 3))


def _centre(inputs: Tensor) -> Tensor:
    return inputs.mean(dim=1)[:, 2, 2]


_BRIGHT = 4 * _LIT
_SLOPE = torch.arange(5.0).repeat(5, 1) / 4
_MIDDLE = grid({(2, 2): 9.0}, side=5) + torch.arange(25.0).view(5, 5) / 100
_RAMP = torch.arange(16.0).view(4, 4) / 100
_QUARTER = {"fractions": [0.25]}
_SURE = {"fractions": [0.25], "of": "probability"}


def _halves(channels: int = 1) -> Fixture:
    """Eight bright blocks: the first four maps mark the block, the others do not."""
    maps = torch.stack([1 + _RIGHT - _RAMP if place < 4 else 5 - _RIGHT - _RAMP for place in range(8)])
    inputs = _BRIGHT.repeat(8, channels, 1, 1)
    inputs[:, :, 3, 3] = torch.arange(8.0).view(8, 1) / 100
    return fixture_batch(ProbabilityModel(block), inputs, maps)


_ROAD = (
    value("road/value", "road", "The bright block is filled in from the dark around it.", _halves().rows([0]), 0.0,
          "the block becomes as dark as its neighbours, and the class is lost", settings=_QUARTER),
    value("road/miss", "road", "Dark pixels are filled in from their neighbours.", _halves().rows([7]), 1.0,
          "the bright block is untouched, and the class stays", settings=_QUARTER),
    value("road/probability", "road", "As road/value, by the probability of the class.", _halves().rows([0]), 0.1,
          "0.1 + 0.8 · 0, but for noise of 0.01", tolerance=0.03, settings=_SURE),
    value("road/linear", "road", "The middle of an even slope is filled in.", fixture(ProbabilityModel(_centre), _SLOPE,
          _MIDDLE), 0.5,
          "the mean of its neighbours is what it was, but for noise of 0.01", tolerance=0.05,
          settings={"fractions": [0.04], "of": "probability"}),
    better("road/oracle", "road", "The map that finds the block, against one that does not.", _halves().rows([0]),
           _halves().rows([7]), "the class is lost with the block only", settings=_QUARTER),
    batch_independent("road/batch", "road", _halves(), sizes=(2, 64), settings=_QUARTER),
    order_independent("road/order", "road", _halves(), settings=_QUARTER),
    same("road/channels", "road", "channels", "Grey images, and the same in three channels.", _halves(), _halves(3),
         "a pixel is filled in with all of its channels", settings=_QUARTER),
)  # fmt: skip

# Sufficiency ----------------------------------------------------------------------------------------------------------

_TWO = fixture(_AND, _ENDS, grid({(0, 0): 2.0, (3, 3): 1.0}))
_NEITHER = fixture(_AND, _ENDS, -_ENDS)
_HALF = fixture(_SUM, _LIT, grid({(0, 0): 4.0, (0, 1): 3.0, (2, 2): 2.0, (3, 3): 1.0}))

_ENOUGH = (
    value("sufficiency/value", "sufficiency", "f = Σx; the salient quarter holds two of the four bright pixels.", _HALF, 0.5,
          "(1/4 + 1/4) / 1", settings={"share": 0.25, **_STEPS}),
    value("sufficiency/all", "sufficiency", "f = Σx; the salient quarter holds all of the light.", _REGION_FIRST, 1.0,
          "1 / 1", settings={"share": 0.25, **_STEPS}),
    better("sufficiency/oracle", "sufficiency", "The bright quarter, against a dark one.", _REGION_FIRST, _REGION_LAST,
           "f = Σx sees all of the light, or none", settings={"share": 0.25, **_STEPS}),
    better("sufficiency/noise", "sufficiency", "The bright quarter, against a random one.", _REGION_FIRST,
           fixture(_SUM, _LIT, noise(4, 4, seed=41)), "a random quarter holds some of the light", settings=_STEPS),
    better("minimality/noise", "minimality", "The two corners first, against a random order.", _TWO,
           fixture(_AND, _ENDS, noise(4, 4, seed=42)), "2 pixels are enough; a random order comes to both later",
           settings=_STEPS),
    batch_independent("sufficiency/batch", "sufficiency", _squares(), settings=_STEPS),
    value("minimality/value", "minimality", "Two corners must both be lit, and are the two most salient pixels.", _TWO,
          2 / 16, "with one of them the class is lost, with two it is there", settings=_STEPS),
    value("minimality/last", "minimality", "The two corners are the least salient pixels.", _NEITHER, 1.0,
          "nothing but the whole image has both", settings=_STEPS),
    better("minimality/oracle", "minimality", "The two corners first, against last.", _TWO, _NEITHER,
           "2 pixels are enough, or all 16 are needed", settings=_STEPS),
    value("effective-complexity/value", "effective-complexity", "Two corners must both be lit, and are most salient.", _TWO,
          2.0, "the output is 0 with one of them and 1 with two", settings=_STEPS),
    value("effective-complexity/last", "effective-complexity", "The two corners are least salient.", _NEITHER, 16.0,
          "all sixteen are needed", settings=_STEPS),
    better("effective-complexity/oracle", "effective-complexity", "The two corners first, against Fake-CAM's order.", _TWO,
           fixture(_AND, _ENDS, fake_cam), "Fake-CAM leaves one corner to the end", kind="fake-cam", settings=_STEPS),
)  # fmt: skip

CASES = (*_ORDER, *_REGION, *_ROAD, *_ENOUGH)
