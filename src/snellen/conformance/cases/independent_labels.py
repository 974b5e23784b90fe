"""Cases of independent labels: the label's own sigmoid counts, whatever the other labels are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.conformance.cases.perturbation import block
from snellen.conformance.cases.re_explaining import Opposed
from snellen.conformance.fixtures import (
    Fixture,
    LinearModel,
    both,
    gradient,
    grid,
    input_x_gradient,
    label_fixture,
    noise,
    picture,
    pixel,
    total,
)
from snellen.conformance.reference_cases import ReferenceCase, better, value
from snellen.conformance.toolkit import NONE, MetricSettings


def label(
    metric: str,
    sentence: str,
    fixture: Fixture,
    expected: float,
    because: str,
    *,
    name: str = "label",
    settings: MetricSettings = NONE,
    tolerance: float = 1e-5,
) -> ReferenceCase:
    """A known score of one label."""
    return value(
        f"{metric}/{name}", metric, f"One of three labels: {sentence}", fixture, expected, because, kind="labels",
        settings=settings, tolerance=tolerance,
    )  # fmt: skip


# Pixels are removed or inserted ---------------------------------------------------------------------------------------

_STEPS = {"steps": 16, "fill": "mean"}
_LIT = grid({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25})
_RIGHT = grid({(0, 0): 4.0, (0, 1): 3.0, (1, 0): 2.0, (1, 1): 1.0})
_GOOD, _BAD = label_fixture(total, _LIT, _RIGHT), label_fixture(total, _LIT, -_RIGHT)
_HALF = label_fixture(total, _LIT, grid({(0, 0): 4.0, (0, 1): 3.0, (2, 2): 2.0, (3, 3): 1.0}))
_ENDS = label_fixture(both((0, 0), (3, 3)), grid({(0, 0): 1.0, (3, 3): 1.0}), grid({(0, 0): 2.0, (3, 3): 1.0}))
_BRIGHT, _RAMP = 4 * _LIT, torch.arange(16.0).view(4, 4) / 100
_FINDS, _MISSES = (label_fixture(block, _BRIGHT, maps - _RAMP) for maps in (1 + _RIGHT, 5 - _RIGHT))
_QUARTER, _SURE = {"fractions": [0.25]}, {"fractions": [0.25], "of": "probability"}
_SETS = {"subsets": 40, "share": 0.25, "of": "probability"}
_SPREAD = noise(4, 4, seed=51) / 16

_REMOVED = (
    label("deletion", "p = Σx; four pixels of 1/4 go first.", _GOOD, 2 / 16,
          "the curve is 1, 3/4, 1/2, 1/4, then 0: (1/2 + 3/4 + 1/2 + 1/4) / 16", settings=_STEPS),
    label("deletion", "p = Σx; the four pixels of 1/4 go last.", _BAD, 14 / 16,
          "twelve dark pixels cost nothing: (1/2 + 12 + 3/4 + 1/2 + 1/4) / 16", name="label-last", settings=_STEPS),
    label("insertion", "p = Σx; four pixels of 1/4 return first.", _GOOD, 14 / 16,
          "the curve is 0, 1/4, 1/2, 3/4, then 1: (1/4 + 1/2 + 3/4 + 12 + 1/2) / 16", settings=_STEPS),
    label("region-perturbation", "p = Σx = 1/2; all light is in the first of four regions to go.",
          label_fixture(total, _LIT / 2, _RIGHT), 2 / 5, "falls 0, 1/2, 1/2, 1/2, 1/2, the untouched image included",
          settings={"region": 2, "steps": 4, "fill": "black"}),
    label("road", "p is high where a block is bright, and the map marks the block.", _FINDS, 0.0,
          "the block becomes as dark as its neighbours, p = 0.1 < 1/2, and the label is lost", settings=_QUARTER),
    label("road", "p is high where a block is bright, and the map marks the dark.", _MISSES, 1.0,
          "the bright block is untouched, and the label stays, though another label is more likely", name="label-stays",
          settings=_QUARTER),
    label("road", "as road/label, by probability.", _FINDS, 0.1, "0.1 + 0.8 · 0, but for noise of 0.01",
          name="label-probability", tolerance=0.03, settings=_SURE),
    label("sufficiency", "p = Σx; the salient quarter holds two of four bright pixels.", _HALF, 0.5, "(1/4 + 1/4) / 1",
          settings={"share": 0.25, **_STEPS}),
    label("minimality", "two corners must both be lit, and are most salient.", _ENDS, 2 / 16,
          "with one of them p = 0, with two p = 1, at or above 1/2", settings=_STEPS),
    label("effective-complexity", "two corners must both be lit, and are most salient.", _ENDS, 2.0,
          "p = 0 with one of them and 1 with two", settings=_STEPS),
    label("faithfulness", "p = Σx, mapped by x, read as a probability.", label_fixture(total, _SPREAD, _SPREAD), 1.0,
          "each set of pixels takes away its sum", tolerance=1e-4, settings=_SETS),
)  # fmt: skip

# The map masks the image ----------------------------------------------------------------------------------------------


def _rivals(inputs: Tensor) -> Tensor:
    """1/2 + first pixel - last pixel."""
    return 0.5 + pixel(0, 0)(inputs) - pixel(-1, -1)(inputs)


_LEFT = torch.zeros(4, 4)
_LEFT[:, :2] = 1


def _left(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The left half, always."""
    return _LEFT.expand(len(inputs), 4, 4).clone()


_KEEPS = label_fixture(total, [[0.6, 0.2], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]])
_GAINS = label_fixture(_rivals, [[0.3, 0.0], [0.0, 0.2]], [[1.0, 0.0], [0.0, 0.0]])

_MASKED = (
    label("average-drop", "p = Σx falls from 0.8 to 0.6.", _KEEPS, 0.25, "(0.8 - 0.6) / 0.8"),
    label("average-increase", "p rises from 0.6 to 0.8.", _GAINS, 1.0, "0.8 > 0.6"),
    label("average-gain", "p rises from 0.6 to 0.8.", _GAINS, 0.5, "(0.8 - 0.6) / (1 - 0.6)"),
    label("local-accuracy", "p = Σx falls from 0.8 to 0.6.", _KEEPS, 0.2, "|0.8 - 0.6|"),
    label("adcc", "p = Σx = 0.8; the left half is marked, always.", label_fixture(total, torch.full((4, 4), 0.05), _left),
          0.6, "coherency 1, complexity 1/2, drop (0.8 - 0.4) / 0.8 = 1/2: 3 / (1 + 2 + 2)"),
)  # fmt: skip

# Logits, and other labels ---------------------------------------------------------------------------------------------


class ThreeLogits(nn.Module):
    """Three independent logits: 9, the weighted sum of all pixels, and -9."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.linear = LinearModel(weights)

    def forward(self, inputs: Tensor) -> Tensor:
        """The sum in column 1."""
        logit = self.linear(inputs)[:, 0]
        sure = torch.full_like(logit, 9.0)
        return torch.stack([sure, logit, -sure], dim=1)


_WEIGHTS = noise(4, 4, seed=52) - 0.25
_EXACT = label_fixture(ThreeLogits(_WEIGHTS), 0.25 + noise(4, 4, seed=53) / 2, input_x_gradient)
_ONES = label_fixture(ThreeLogits(_WEIGHTS), torch.ones(4, 4), _WEIGHTS)
_FIRST = label_fixture(ThreeLogits(torch.ones(4, 4)), _LIT, _RIGHT)
_OPPOSED = Opposed(noise(8, 8, seed=54) - 0.5)
_GREY = 0.25 + noise(8, 8, seed=55) / 2
_SEEING, _BLIND = (label_fixture(_OPPOSED, _GREY, method, target=0) for method in (gradient, picture))
_PEARSON = {"likeness": "pearson"}

_LOGITS = (
    label("completeness", "a linear logit; the map is input times weight.", _EXACT, 0.0,
          "z(x) - z(0) = Σ wx, which is what the map adds up to"),
    label("morf", "z = Σx; four pixels of 1/4 go first.", _FIRST, 14.5 / 16,
          "falls of 1/4, 1/2, 3/4, then 1 thirteen times, over 16", settings=_STEPS),
    label("lerf", "z = Σx; the four pixels of 1/4 go last.", _FIRST, 2.5 / 16,
          "no fall twelve times, then 1/4, 1/2, 3/4, 1, over 16", settings=_STEPS),
    label("infidelity", "a linear logit on ones; the map is its weights.", _ONES, 0.0,
          "each square takes away what the map says", settings={"samples": 8, "size": 0.5}),
    label("max-sensitivity", "the gradient of a linear logit.",
          label_fixture(ThreeLogits(_WEIGHTS), 0.25 + noise(4, 4, seed=53) / 2, gradient), 0.0,
          "its gradient is the same everywhere", settings={"samples": 10, "radius": 0.2}),
    value("random-logit/label", "random-logit", "Two labels with opposite gradients.", _SEEING, -1.0,
          "the correlation of a map with its negative", kind="labels", settings=_PEARSON),
    better("target-sensitivity/label", "target-sensitivity", "Two labels: the gradient, against a method that ignores the "
           "label.", _SEEING, _BLIND, "only the first depends on the label", kind="labels"),
)  # fmt: skip

CASES = (*_REMOVED, *_MASKED, *_LOGITS)
