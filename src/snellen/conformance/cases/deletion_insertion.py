"""Cases of deletion and insertion: pixels are removed or inserted in the order of the map."""

from __future__ import annotations

import torch

from snellen.conformance.fixtures import Fixture, ProbabilityModel, both, fixture, fixture_batch, grid, noise, pixel, total
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, order_independent, same, value
from snellen.conformance.toolkit import Toolkit

_STEPS = {"steps": 16, "fill": "mean"}
_LIT = grid({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25})
_RIGHT = grid({(0, 0): 4.0, (0, 1): 3.0, (1, 0): 2.0, (1, 1): 1.0})
_SIGNED = grid({(0, 0): -9.0, (0, 1): 3.0, (1, 0): 2.0, (1, 1): 1.0})
_ENDS = grid({(0, 0): 1.0, (3, 3): 1.0})
_SUM, _AND, _ONE = ProbabilityModel(total), ProbabilityModel(both((0, 0), (3, 3))), ProbabilityModel(pixel(0, 0))
_GOOD, _BAD, _NOISE = (fixture(_SUM, _LIT, maps) for maps in (_RIGHT, -_RIGHT, noise(4, 4, seed=5)))


def _several(channels: int = 1) -> Fixture:
    """Five different images whose pixels sum to at most 1, each with its own map, one of them scaled by 1000."""
    inputs = noise(5, 1, 4, 4, seed=3).repeat(1, channels, 1, 1) / 16
    maps = noise(5, 4, 4, seed=4)
    maps[2] *= 1000
    return fixture_batch(_SUM, inputs, maps)


def _tied() -> Fixture:
    """Many images whose first pixel alone matters, under a map of fifteen ones and one zero; they differ elsewhere."""
    inputs = grid({(0, 0): 1.0}).repeat(128, 1, 1, 1)
    inputs[:, 0, 2, 2] = torch.arange(128.0) / 256
    return fixture_batch(_ONE, inputs, 1 - grid({(3, 3): 1.0}))


def _mean(metric: str) -> ReferenceCase:
    def compute(toolkit: Toolkit) -> list[float]:
        scores = toolkit.compute(metric, _tied(), _STEPS)
        return [sum(scores) / len(scores)]

    return ReferenceCase(
        id=f"{metric}/ties",
        metric=metric,
        kind="ties",
        sentence="One pixel alone matters, and fourteen are as salient: mean of 128.",
        expected=7.5 / 16 if metric == "deletion" else 8.5 / 16,
        because="it is as likely to be any of the first fifteen, r = 0…14: the mean of (r + 1/2) / 16, or of 1 minus that",
        compute=compute,
        tolerance=0.1,
    )


def _both_ways(metric: str, good: Fixture, bad: Fixture) -> tuple[ReferenceCase, ...]:
    return (
        better(f"{metric}/oracle", metric, "The bright pixels first, against last.", good, bad,
               "f = Σx changes fastest when the bright pixels go first", settings=_STEPS),
        better(f"{metric}/noise", metric, "The bright pixels first, against a random order.", good, _NOISE,
               "no order is faster than the brightest first", settings=_STEPS),
        batch_independent(f"{metric}/batch", metric, _several(), settings=_STEPS),
        order_independent(f"{metric}/order", metric, _several(), settings=_STEPS),
        same(f"{metric}/channels", metric, "channels", "Grey images, and the same in three channels.", _several(),
             _several(3), "a pixel goes with all of its channels, so there are 16 steps, not 48", settings=_STEPS),
        same(f"{metric}/scaling", metric, "scaling", "A map m, and 3 m + 1.", good, good.with_maps(3 * _RIGHT + 1),
             "only the order of the pixels counts", settings=_STEPS),
        _mean(metric),
    )  # fmt: skip


CASES = (
    value("deletion/value", "deletion", "f = Σx; four pixels of 1/4 go first, one at a time.", _GOOD, 2 / 16,
          "the curve is 1, 3/4, 1/2, 1/4, then 0: (1/2 + 3/4 + 1/2 + 1/4) / 16", settings=_STEPS),
    value("deletion/last", "deletion", "f = Σx; the four pixels of 1/4 go last.", _BAD, 14 / 16,
          "twelve dark pixels cost nothing: (1/2 + 12 + 3/4 + 1/2 + 1/4) / 16", settings=_STEPS),
    value("deletion/perfect", "deletion", "Two corners must both be lit; the first to go is one of them.",
          fixture(_AND, _ENDS, _ENDS * 2 + _ENDS.roll(1, dims=1)), 1 / 32, "1, then 0 at every point: (1/2) / 16",
          settings=_STEPS),
    value("deletion/sign", "deletion", "A bright pixel has the largest magnitude and a negative sign.",
          fixture(_SUM, _LIT, _SIGNED), 5 / 16, "it goes last: (1/2 + 3/4 + 1/2 + 13 · 1/4) / 16", kind="sign",
          settings=_STEPS),
    value("insertion/value", "insertion", "f = Σx; four pixels of 1/4 return first, one at a time.", _GOOD, 14 / 16,
          "the curve is 0, 1/4, 1/2, 3/4, then 1: (1/4 + 1/2 + 3/4 + 12 + 1/2) / 16", settings=_STEPS),
    value("insertion/perfect", "insertion", "One pixel alone matters, and it returns first.",
          fixture(_ONE, grid({(0, 0): 1.0}), grid({(0, 0): 1.0})), 31 / 32, "0, then 1 at every point: (15 + 1/2) / 16",
          settings=_STEPS),
    value("insertion/and", "insertion", "Two corners must both be lit, and return first and second.",
          fixture(_AND, _ENDS, grid({(0, 0): 2.0, (3, 3): 1.0})), 14.5 / 16, "0, 0, then 1 at every point: (14 + 1/2) / 16",
          settings=_STEPS),
    *_both_ways("deletion", _GOOD, _BAD),
    *_both_ways("insertion", _GOOD, _BAD),
)  # fmt: skip
