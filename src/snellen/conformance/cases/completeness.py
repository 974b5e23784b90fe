"""Cases of completeness and monotonicity."""

from __future__ import annotations

import torch
from torch import Tensor

from snellen.conformance.fixtures import Fixture, LinearModel, fixture, fixture_batch, input_x_gradient, noise
from snellen.conformance.reference_cases import (
    ReferenceCase,
    axiom_holds,
    batch_independent,
    better,
    order_independent,
    value,
)
from snellen.conformance.toolkit import Toolkit

_WEIGHTS = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
_LINEAR = LinearModel(_WEIGHTS, bias=3.0)
_POWERS = torch.tensor([[0.5, 0.25], [1.0, 0.125]])
_ROUGH = noise(6, 1, 8, 8, seed=18)
_FINE = LinearModel(noise(8, 8, seed=19))
_WHOLE = fixture(_LINEAR, _POWERS, input_x_gradient)


_COMPLETE = (
    value("completeness/value", "completeness", "A linear model; the map is input times weight.", _WHOLE, 0.0,
          "f(x) - f(0) = Σ wx, which is what the map adds up to"),
    value("completeness/double", "completeness", "The map is twice input times weight.", _WHOLE.with_maps(2 * _WHOLE.maps),
          1.0,
          "|2 Σwx - Σwx| / |Σwx|", kind="scaling"),
    axiom_holds("completeness/kept", "completeness",
         "Is a complete map found complete, in numbers that floats hold exactly?",
         _WHOLE, 1.0, "the gap is 0"),
    axiom_holds("completeness/rounding", "completeness", "Are six complete maps found complete, where sums are rounded?",
         fixture_batch(_FINE, _ROUGH, input_x_gradient), 1.0, "the gap is that of rounding"),
    axiom_holds("completeness/broken", "completeness", "Is twice a complete map found complete?",
         _WHOLE.with_maps(2 * _WHOLE.maps),
         0.0, "the gap is all of the output"),
    axiom_holds("completeness/channels", "completeness", "Is a complete map found complete, in three channels?",
         fixture(_LINEAR, _POWERS, input_x_gradient, channels=3), 1.0, "the baseline is zero in all of them",
         kind="channels"),
    better("completeness/oracle", "completeness", "Input times weight, against its negation.", _WHOLE,
           _WHOLE.with_maps(-_WHOLE.maps), "the sign is part of the sum", kind="sign"),
    batch_independent("completeness/batch", "completeness", fixture_batch(_FINE, _ROUGH, noise(6, 8, 8, seed=20))),
)  # fmt: skip

# Monotonicity ---------------------------------------------------------------------------------------------------------

_RIVALS = LinearModel(torch.tensor([[1.0, -1.0]]))
_TWO = {"steps": 2, "of": "logit", "fill": "mean"}
_ALIGNED = fixture(_RIVALS, [[1.0, 1.0]], [[1.0, -1.0]])
_TURNED = fixture(_RIVALS, [[1.0, 1.0]], [[-1.0, 1.0]])


def _apart(toolkit: Toolkit) -> list[float]:
    name = "monotonicity:holds" if "monotonicity:holds" in toolkit.offers else "monotonicity"
    good, bad = (toolkit.compute(name, fixture, _TWO) for fixture in (_ALIGNED, _TURNED))
    return [good[0] - bad[0]]


_STRENGTHS = torch.tensor([[1.0, 2.0], [4.0, -7.0]])
_EFFECTS = {"chunks": 4, "samples": 1, "of": "logit", "fill": "mean"}


def _effects(maps: Tensor, bias: float = 0.0) -> Fixture:
    """Two images; the second is all ones, where 1 + 2 + 4 - 7 = 0."""
    return fixture_batch(
        LinearModel(_STRENGTHS, bias), torch.tensor([[[[0.5, 0.5], [0.5, 0.75]]], [[[1.0, 1.0], [1.0, 1.0]]]]), maps
    )


_MONOTONE = (
    value("monotonicity/value", "monotonicity", "f = a - b; the map is (1, -1).", _ALIGNED, 1.0,
          "b enters with f = -1, then a with f = 0: saliency -1, 1 against outputs -1, 0", settings=_TWO),
    value("monotonicity/turned", "monotonicity", "f = a - b; the map is (-1, 1).", _TURNED, -1.0,
          "a enters with f = 1, then b with f = 0: saliency -1, 1 against outputs 1, 0", kind="sign", settings=_TWO),
    ReferenceCase(id="monotonicity/direction", metric="monotonicity", kind="direction",
                  sentence="The map (1, -1) against (-1, 1), for f = a - b.", expected="above 0",
                  because="outputs rise with the first order of pixels and fall with the second", compute=_apart),
    value("monotonicity-correlation/value", "monotonicity-correlation", "A linear model, mapped by the size of its weights.",
          _effects(_STRENGTHS.abs()).rows([0]), 1.0, "effects (wx)² rise with |w|", settings=_EFFECTS),
    value("monotonicity-correlation/turned", "monotonicity-correlation", "The sizes of the weights in reverse.",
          _effects(8 - _STRENGTHS.abs()).rows([0]), -1.0, "effects fall as the map rises", kind="direction",
          settings=_EFFECTS),
    value("monotonicity-correlation/zero", "monotonicity-correlation", "Two images; on the second the output is 0.",
          _effects(_STRENGTHS.abs()), (1.0, 1.0), "effects (wx)² rise with |w| on both", settings=_EFFECTS),
    value("monotonicity-correlation/sign", "monotonicity-correlation", "The weights themselves, one of them negative.",
          _effects(_STRENGTHS).rows([0]), 1.0, "magnitudes count", kind="sign", settings=_EFFECTS),
    order_independent("monotonicity-correlation/order", "monotonicity-correlation", _effects(_STRENGTHS.abs(), bias=5.0),
              settings=_EFFECTS),
    batch_independent("monotonicity/batch", "monotonicity",
              fixture_batch(_FINE, _ROUGH, input_x_gradient), settings={"steps": 16, "of": "logit"}),
)  # fmt: skip

CASES = (*_COMPLETE, *_MONOTONE)
