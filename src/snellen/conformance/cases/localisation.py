"""Cases of localisation, which depend on the map and the truth mask alone."""

from __future__ import annotations

import math
from dataclasses import replace
from math import comb

import torch

from snellen.conformance.fixtures import Fixture, LinearModel, constant, fake_cam, fixture, fixture_batch, noise
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, order_independent, same, value
from snellen.conformance.toolkit import Toolkit

_SIDE = 4
_LEFT = torch.zeros(_SIDE, _SIDE, dtype=torch.bool)
_LEFT[:, :2] = True
_CORNER = torch.zeros(_SIDE, _SIDE, dtype=torch.bool)
_CORNER[0, 0] = True


def _marked(maps: object, truth: object, *, channels: int = 1) -> Fixture:
    rows = torch.as_tensor(maps, dtype=torch.float32)
    return fixture(LinearModel(), 0.5 + 0 * rows, rows, truth=truth, channels=channels)  # type: ignore[arg-type]


def _several(count: int = 6) -> Fixture:
    """Different maps, one of them scaled by 1000, with different truths."""
    maps = noise(count, _SIDE, _SIDE, seed=1) + 0.1
    maps[1] *= 1000
    truth = torch.stack([_LEFT.roll(place, dims=1) if place % 2 else _CORNER.roll(place, dims=0) for place in range(count)])
    inputs = 0.5 + 0.1 * noise(count, 1, _SIDE, _SIDE, seed=2)
    return fixture_batch(LinearModel(), inputs, maps, truth=truth)


_RAMP = torch.arange(16.0).view(4, 4) / 100
_ORACLE = _marked(_LEFT + _RAMP * _LEFT, _LEFT)
_AGAINST = _marked(~_LEFT + _RAMP, _LEFT)
_NOISE = _marked(noise(4, 4, seed=39), _LEFT)
_HIT_THREE = _marked([[9, 8, 7, 0], [0, 0, 0, 1]], [[1, 1, 1, 0], [1, 0, 0, 0]])
_QUARTER = _marked([[3, 1], [2, 0]], [[1, 0], [0, 0]])
_SIGNED = _marked([[3, 1], [-4, 0]], [[1, 0], [0, 0]])
_EMPTY = replace(_several(3), truth=torch.stack([_LEFT, torch.zeros_like(_LEFT), _LEFT]))
_FAKE = fixture(LinearModel(), 0.5 + 0 * _RAMP, fake_cam, truth=~_CORNER & _LEFT)
_FLAT_LEFT = fixture(LinearModel(), 0.5 + 0 * _RAMP, constant, truth=_LEFT)
_FLAT_CORNER = fixture(LinearModel(), 0.5 + 0 * _RAMP, constant, truth=_CORNER)

_ALL = (
    "pointing-game", "energy-pointing-game", "localisation-utility", "mean-iou", "relevance-mass", "relevance-rank",
    "plausibility",
)  # fmt: skip
_RANKED = ("pointing-game", "localisation-utility", "mean-iou", "relevance-rank", "plausibility")


def _of_each(metric: str) -> tuple[ReferenceCase, ...]:
    return (
        better(f"{metric}/oracle", metric, "The truth as a map, against its complement.", _ORACLE, _AGAINST,
               "the oracle marks only the object, its complement none of it"),
        better(f"{metric}/noise", metric, "The truth as a map, against a random map.", _ORACLE, _NOISE,
               "the random map has some of it beside the object"),
        batch_independent(f"{metric}/batch", metric, _several()),
        order_independent(f"{metric}/order", metric, _several()),
        same(f"{metric}/channels", metric, "channels", "A grey image and the same in three channels.",
             _HIT_THREE, _marked(_HIT_THREE.maps[0], _HIT_THREE.truth[0], channels=3),  # type: ignore[index]
             "maps and truth have no channels"),
        ReferenceCase(id=f"{metric}/empty", metric=metric, kind="empty truth",
                      sentence="Nothing is marked in the second of three images.", expected=math.nan,
                      because="nothing can be hit, and nothing can be missed",
                      compute=lambda toolkit: toolkit.compute(metric, _EMPTY)[1:2]),
    )  # fmt: skip


def _by_size(metric: str, fixture: Fixture, toolkit: Toolkit, *, inverse: bool) -> list[float]:
    """Scores times the marked (or unmarked) share of the image, computed here if the toolkit has no such setting."""
    if f"{metric}:weighted" in toolkit.offers:
        return toolkit.compute(f"{metric}:weighted", fixture)
    assert fixture.truth is not None
    shares = fixture.truth.float().mean(dim=(1, 2)).tolist()
    scores = toolkit.compute(metric, fixture)
    return [score * (1 - share if inverse else share) for score, share in zip(scores, shares, strict=True)]


def _three_of_four(toolkit: Toolkit) -> list[float]:
    metric = "energy-pointing-game"
    few, many = (_by_size(metric, _several(4).rows(range(count)), toolkit, inverse=False) for count in (3, 4))
    return [max(abs(first - second) for first, second in zip(few, many[:3], strict=True))]


_WEIGHTED = (
    ReferenceCase(id="energy-pointing-game/weighted", metric="energy-pointing-game", kind="batch",
                  sentence="Weighted by the size of the object, three samples score as they do among four.", expected=0.0,
                  because="a score belongs to its sample", compute=_three_of_four),
    ReferenceCase(id="pointing-game/weighted", metric="pointing-game", kind="value",
                  sentence="A hit, weighted by the share of the image that is not marked.", expected=0.75,
                  because="1 · (1 - 1/4)",
                  compute=lambda toolkit: _by_size("pointing-game", _QUARTER, toolkit, inverse=True)),
)  # fmt: skip

CASES = (
    *_WEIGHTED,
    *(case for metric in _ALL for case in _of_each(metric)),
    *(same(f"{metric}/scaling", metric, "scaling", "A map m, and 3 m + 1.", _several().with_maps(100 * _RAMP.flip(1)),
           _several().with_maps(300 * _RAMP.flip(1) + 1), "only the order of the pixels counts") for metric in _RANKED),
    *(same(f"{metric}/scaling", metric, "scaling", "A map m, and 10 m.", _several(),
           _several().with_maps(10 * _several().maps),
           "a share has no unit") for metric in ("energy-pointing-game", "relevance-mass")),
    value("pointing-game/ties", "pointing-game", "Two equal maxima, one of them on the object.",
          _marked([[1, 0], [0, 1]], [[1, 0], [0, 0]]), 0.5, "each of the two is as likely to be the one", kind="ties"),
    value("pointing-game/sign", "pointing-game", "The largest magnitude is negative and on the object.",
          _marked([[-9, 0], [0, 1]], [[1, 0], [0, 0]]), 0.0, "the maximum is 1, outside", kind="sign"),
    value("energy-pointing-game/sign", "energy-pointing-game", "3 inside; 1 and -4 outside.", _SIGNED, 3 / 4,
          "3 / (3 + 1): what is negative points nowhere", kind="sign"),
    value("energy-pointing-game/constant", "energy-pointing-game", "A constant map, half marked.", _FLAT_LEFT,
          0.5, "8 / 16", kind="constant"),
    value("energy-pointing-game/fake-cam", "energy-pointing-game", "Fake-CAM, 7 of 16 pixels marked.", _FAKE, 7 / 15,
          "7 of 15 ones", kind="fake-cam"),
    value("pointing-game/fake-cam", "pointing-game", "Fake-CAM, 7 of 16 pixels marked.", _FAKE, 7 / 15,
          "15 equal maxima, 7 of them on the object", kind="fake-cam"),
    value("localisation-utility/fake-cam", "localisation-utility", "Fake-CAM, 7 of 16 pixels marked.", _FAKE, 7 / 15,
          "all 7 are found at once, among 15", kind="fake-cam"),
    value("mean-iou/fake-cam", "mean-iou", "Fake-CAM, 7 of 16 pixels marked.", _FAKE,
          sum(comb(7, hits) * comb(8, 7 - hits) / comb(15, 7) * hits / (14 - hits) for hits in range(8)),
          "the mean of h / (14 - h) over all ways to choose 7 of 15 equal pixels", kind="fake-cam"),
    value("relevance-rank/fake-cam", "relevance-rank", "Fake-CAM, 7 of 16 pixels marked.", _FAKE, 7 / 15,
          "7 of 15 equal pixels are chosen, 7/15 of them marked", kind="fake-cam"),
    value("plausibility/fake-cam", "plausibility", "Fake-CAM, 7 of 16 pixels marked.", _FAKE, 5 / 9,
          "of nine pixels outside, eight are equal and one is less: (8 / 2 + 1) / 9", kind="fake-cam"),
    value("localisation-utility/value", "localisation-utility", "Marked, not, marked, not, from the top.",
          _marked([[4, 3], [2, 1]], [[1, 0], [1, 0]]), 5 / 6, "precision 1 at half recall, 2/3 at full: (1 + 2/3) / 2"),
    value("localisation-utility/ties", "localisation-utility", "The two highest pixels are equal, one of them marked.",
          _marked([[4, 4], [2, 1]], [[1, 0], [1, 0]]), 7 / 12, "(1/2 + 2/3) / 2, equal pixels coming together", kind="ties"),
    value("localisation-utility/constant", "localisation-utility", "A constant map, one pixel of sixteen marked.",
          _FLAT_CORNER, 1 / 16, "the precision of the whole image", kind="constant"),
    value("mean-iou/value", "mean-iou", "Three of the four most salient pixels are marked.", _HIT_THREE, 3 / 5,
          "3 in common, 5 in all"),
    value("mean-iou/ties", "mean-iou", "One sure hit, the other among three equals, one of them marked.",
          _marked([[2, 1], [1, 1]], [[1, 1], [0, 0]]), 5 / 9, "1/3 · 2/2 + 2/3 · 1/3", kind="ties"),
    value("mean-iou/objects", "mean-iou", "Two objects, found exactly.", _marked([[5, 0, 4, 0]], [[1, 0, 1, 0]]), 1.0,
          "the union of both counts, not the mean over objects, which would be 1/2"),
    value("relevance-mass/value", "relevance-mass", "3 inside; 1 and -4 outside.", _SIGNED, 3 / 8,
          "3 / (3 + 1 + 4): magnitudes count", kind="sign"),
    value("relevance-mass/constant", "relevance-mass", "A constant map, half marked.", _FLAT_LEFT, 0.5, "8 / 16",
          kind="constant"),
    value("relevance-mass/fake-cam", "relevance-mass", "Fake-CAM, 7 of 16 pixels marked.", _FAKE, 7 / 15,
          "7 of 15 ones", kind="fake-cam"),
    value("relevance-rank/value", "relevance-rank", "Three of the four most salient pixels are marked.", _HIT_THREE, 3 / 4,
          "3 of 4"),
    value("relevance-rank/ties", "relevance-rank", "Two equal maxima, one of them marked, alone.",
          _marked([[1, 0], [0, 1]], [[1, 0], [0, 0]]), 0.5, "each of the two is as likely to be the first", kind="ties"),
    value("plausibility/value", "plausibility", "Inside 3 and 2, outside 2 and 0.",
          _marked([[3, 2, 2, 0]], [[1, 1, 0, 0]]), 3.5 / 4, "three pairs in order, one equal"),
    value("plausibility/constant", "plausibility", "A constant map.", _FLAT_LEFT, 0.5, "all are equal", kind="constant"),
)  # fmt: skip
