"""Known answers about maps that should account for the output: completeness and monotonicity."""

from __future__ import annotations

import torch
from torch import Tensor

from snellen.conformance.answers import KnownAnswer, any_batch, any_order, better, kept, value
from snellen.conformance.scene import Scene, Weighted, input_x_gradient, noise, scene, scene_of
from snellen.conformance.toolkit import Toolkit

_WEIGHTS = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
_LINEAR = Weighted(_WEIGHTS, bias=3.0)
_POWERS = torch.tensor([[0.5, 0.25], [1.0, 0.125]])
_ROUGH = noise(6, 1, 8, 8, seed=18)
_FINE = Weighted(noise(8, 8, seed=19))
_WHOLE = scene(_LINEAR, _POWERS, input_x_gradient)


_COMPLETE = (
    value("completeness/value", "completeness", "A linear model; the map is input times weight.", _WHOLE, 0.0,
          "f(x) - f(0) = Σ wx, which is what the map adds up to"),
    value("completeness/double", "completeness", "The map is twice input times weight.", _WHOLE.mapped(2 * _WHOLE.maps), 1.0,
          "|2 Σwx - Σwx| / |Σwx|", kind="scaling"),
    kept("completeness/kept", "completeness", "Is a complete map found complete, in numbers that floats hold exactly?",
         _WHOLE, 1.0, "the gap is 0"),
    kept("completeness/rounding", "completeness", "Are six complete maps found complete, where sums are rounded?",
         scene_of(_FINE, _ROUGH, input_x_gradient), 1.0, "the gap is that of rounding"),
    kept("completeness/broken", "completeness", "Is twice a complete map found complete?", _WHOLE.mapped(2 * _WHOLE.maps),
         0.0, "the gap is all of the output"),
    kept("completeness/channels", "completeness", "Is a complete map found complete, in three channels?",
         scene(_LINEAR, _POWERS, input_x_gradient, channels=3), 1.0, "the baseline is zero in all of them", kind="channels"),
    better("completeness/oracle", "completeness", "Input times weight, against its negation.", _WHOLE,
           _WHOLE.mapped(-_WHOLE.maps), "the sign is part of the sum", kind="sign"),
    any_batch("completeness/batch", "completeness", scene_of(_FINE, _ROUGH, noise(6, 8, 8, seed=20))),
)  # fmt: skip

# Monotonicity ---------------------------------------------------------------------------------------------------------

_RIVALS = Weighted(torch.tensor([[1.0, -1.0]]))
_TWO = {"steps": 2, "of": "logit", "fill": "mean"}
_ALIGNED = scene(_RIVALS, [[1.0, 1.0]], [[1.0, -1.0]])
_TURNED = scene(_RIVALS, [[1.0, 1.0]], [[-1.0, 1.0]])


def _apart(toolkit: Toolkit) -> list[float]:
    name = "monotonicity:holds" if "monotonicity:holds" in toolkit.offers else "monotonicity"
    good, bad = (toolkit.ask(name, one, _TWO) for one in (_ALIGNED, _TURNED))
    return [good[0] - bad[0]]


_STRENGTHS = torch.tensor([[1.0, 2.0], [4.0, -7.0]])
_EFFECTS = {"chunks": 4, "samples": 1, "of": "logit", "fill": "mean"}


def _effects(maps: Tensor, bias: float = 0.0) -> Scene:
    """Two pictures; the second is all ones, where 1 + 2 + 4 - 7 = 0."""
    return scene_of(
        Weighted(_STRENGTHS, bias), torch.tensor([[[[0.5, 0.5], [0.5, 0.75]]], [[[1.0, 1.0], [1.0, 1.0]]]]), maps
    )


_MONOTONE = (
    value("monotonicity/value", "monotonicity", "f = a - b; the map is (1, -1).", _ALIGNED, 1.0,
          "b enters with f = -1, then a with f = 0: saliency -1, 1 against outputs -1, 0", settings=_TWO),
    value("monotonicity/turned", "monotonicity", "f = a - b; the map is (-1, 1).", _TURNED, -1.0,
          "a enters with f = 1, then b with f = 0: saliency -1, 1 against outputs 1, 0", kind="sign", settings=_TWO),
    KnownAnswer("monotonicity/direction", "monotonicity", "direction", "The map (1, -1) against (-1, 1), for f = a - b.",
                "above 0", "outputs rise with the first order of pixels and fall with the second", _apart),
    value("monotonicity-correlation/value", "monotonicity-correlation", "A linear model, mapped by the size of its weights.",
          _effects(_STRENGTHS.abs()).rows([0]), 1.0, "effects (wx)² rise with |w|", settings=_EFFECTS),
    value("monotonicity-correlation/turned", "monotonicity-correlation", "The sizes of the weights in reverse.",
          _effects(8 - _STRENGTHS.abs()).rows([0]), -1.0, "effects fall as the map rises", kind="direction",
          settings=_EFFECTS),
    value("monotonicity-correlation/zero", "monotonicity-correlation", "Two pictures; on the second the output is 0.",
          _effects(_STRENGTHS.abs()), (1.0, 1.0), "effects (wx)² rise with |w| on both", settings=_EFFECTS),
    value("monotonicity-correlation/sign", "monotonicity-correlation", "The weights themselves, one of them negative.",
          _effects(_STRENGTHS).rows([0]), 1.0, "magnitudes count", kind="sign", settings=_EFFECTS),
    any_order("monotonicity-correlation/order", "monotonicity-correlation", _effects(_STRENGTHS.abs(), bias=5.0),
              settings=_EFFECTS),
    any_batch("monotonicity/batch", "monotonicity",
              scene_of(_FINE, _ROUGH, input_x_gradient), settings={"steps": 16, "of": "logit"}),
)  # fmt: skip

ANSWERS = (*_COMPLETE, *_MONOTONE)
