"""Cases of complexity, sparseness and sparsity, which depend on the map alone."""

from __future__ import annotations

import math

import torch

from snellen.conformance.fixtures import Fixture, LinearModel, constant, fake_cam, fixture, fixture_batch, noise
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, order_independent, same, value
from snellen.conformance.toolkit import Toolkit


def mapped(rows: object, channels: int = 1) -> Fixture:
    """A grey image with this map."""
    maps = torch.as_tensor(rows, dtype=torch.float32)
    return fixture(LinearModel(), 0.5 + 0 * maps, maps, channels=channels)


def several(count: int = 5) -> Fixture:
    """Different maps, one of them scaled by a million."""
    maps = noise(count, 4, 4, seed=8)
    maps[1] *= 1e6
    return fixture_batch(LinearModel(), 0.5 + 0.1 * noise(count, 1, 4, 4, seed=9), maps)


_ONE = mapped([[0, 0, 0, 0], [0, 0, 7, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
_FLAT = fixture(LinearModel(), torch.full((4, 4), 0.5), constant)
_FAKE = fixture(LinearModel(), torch.full((4, 4), 0.5), fake_cam)
_BOTH = several().with_maps(noise(5, 4, 4, seed=13) - 0.5)
_NOISE = mapped(noise(4, 4, seed=43))
_MIXED = several(3).with_maps(torch.stack([torch.ones(4, 4), torch.zeros(4, 4), torch.eye(4)]))


def of_each(metric: str) -> tuple[ReferenceCase, ...]:
    """Cases that every measure of concentration must pass."""

    def untouched(toolkit: Toolkit) -> list[float]:
        fixture = several()
        before = fixture.maps.clone()
        toolkit.compute(metric, fixture, copied=False)
        return [float((fixture.maps - before).abs().max())]

    return (
        better(f"{metric}/oracle", metric, "One pixel has it all, against Fake-CAM.", _ONE, _FAKE,
               "nothing is more concentrated than one pixel, and little less than fifteen of sixteen"),
        better(f"{metric}/noise", metric, "One pixel has it all, against a random map.", _ONE, _NOISE,
               "nothing is more concentrated than one pixel"),
        batch_independent(f"{metric}/batch", metric, several()),
        order_independent(f"{metric}/order", metric, several()),
        same(f"{metric}/scaling", metric, "scaling", "A map m, and 10 m.", several(),
             several().with_maps(10 * several().maps),
             "a share has no unit"),
        same(f"{metric}/sign", metric, "sign", "A map m of both signs, and -m.", _BOTH, _BOTH.with_maps(-_BOTH.maps),
             "magnitudes count"),
        same(f"{metric}/channels", metric, "channels", "A grey image, and the same in three channels.",
             mapped([[3, 1], [0, 2]]), mapped([[3, 1], [0, 2]], channels=3), "a map has no channels"),
        ReferenceCase(id=f"{metric}/unmodified", metric=metric, kind="unmodified",
                      sentence="The caller's maps after the call, and before.", expected=0.0,
                      because="a measurement changes nothing", compute=untouched, tolerance=0.0),
    )  # fmt: skip


def _zero(metric: str) -> ReferenceCase:
    return ReferenceCase(
        id=f"{metric}/zero",
        metric=metric,
        kind="constant",
        sentence="The second of three maps is zero everywhere.",
        expected=math.nan,
        because="nothing can be shared out",
        compute=lambda toolkit: toolkit.compute(metric, _MIXED)[1:2],
    )


CASES = (
    value("complexity/value", "complexity", "Magnitudes 2, 1, 1.", mapped([[-2, 0], [1, 1]]), 1.5 * math.log(2),
          "1/2 ln 2 + 2 · 1/4 ln 4"),
    value("complexity/one", "complexity", "One pixel has it all.", _ONE, 0.0, "-1 ln 1"),
    value("complexity/constant", "complexity", "A constant map of sixteen pixels.", _FLAT, math.log(16), "ln 16",
          kind="constant"),
    value("complexity/fake-cam", "complexity", "Fake-CAM on sixteen pixels.", _FAKE, math.log(15), "ln 15", kind="fake-cam"),
    value("sparseness/value", "sparseness", "Magnitudes 1 and 3 and fourteen zeros.",
          mapped([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [-3, 0, 0, 0]]), 1 - 1.5 / 16,
          "1 - 2 (1/4 · 3/2 + 3/4 · 1/2) / 16"),
    value("sparseness/one", "sparseness", "One pixel has it all.", _ONE, 15 / 16, "1 - 2 · (1/2) / 16"),
    value("sparseness/constant", "sparseness", "A constant map.", _FLAT, 0.0, "all pixels have the same share",
          kind="constant"),
    value("sparseness/fake-cam", "sparseness", "Fake-CAM on sixteen pixels.", _FAKE, 1 / 16,
          "1 - 2 · Σ (16 - k + 1/2) / 15 / 16 over k = 2…16 = 1 - 15 / 16", kind="fake-cam"),
    value("sparsity/value", "sparsity", "Values 3, -1, 0, 0.", mapped([[3, -1], [0, 0]]), 3.0, "max 3 over mean 1"),
    value("sparsity/one", "sparsity", "One pixel has it all.", _ONE, 16.0, "7 / (7 / 16)"),
    value("sparsity/constant", "sparsity", "A constant map.", _FLAT, 1.0, "1 / 1", kind="constant"),
    value("sparsity/fake-cam", "sparsity", "Fake-CAM on sixteen pixels.", _FAKE, 16 / 15, "1 / (15 / 16)", kind="fake-cam"),
    *(case for metric in ("complexity", "sparseness", "sparsity") for case in (*of_each(metric), _zero(metric))),
    value("effective-complexity-count/value", "effective-complexity-count", "Values 1/2, -1/2, 0 and a millionth.",
          mapped([[0.5, -0.5], [0, 1e-6]]), 2.0, "two magnitudes are above 0.00001"),
    value("effective-complexity-count/fake-cam", "effective-complexity-count", "Fake-CAM on sixteen pixels.", _FAKE, 15.0,
          "fifteen ones", kind="fake-cam"),
    better("effective-complexity-count/oracle", "effective-complexity-count", "One pixel, against Fake-CAM.", _ONE, _FAKE,
           "1 against 15"),
    batch_independent("effective-complexity-count/batch", "effective-complexity-count", several()),
    value("effective-complexity-count/neighbour", "effective-complexity-count",
          "Maps divided by their own maximum; the second is a million times louder.",
          several(3).with_maps(torch.stack([torch.ones(4, 4) - torch.eye(4) / 2, 1e6 * (torch.ones(4, 4) - torch.eye(4)),
                                         torch.eye(4) + 0.5])),
          (16.0, 12.0, 16.0), "the size of one map does not change the share of pixels of another", kind="batch",
          settings={"normalised": True}),
)  # fmt: skip
