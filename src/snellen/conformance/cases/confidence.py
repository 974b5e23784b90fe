"""Cases where the map masks the image: average drop, increase, gain, and local accuracy."""

from __future__ import annotations

import torch

from snellen.conformance.fixtures import Fixture, ProbabilityModel, fake_cam, fixture, fixture_batch, noise, total
from snellen.conformance.reference_cases import ReferenceCase, batch_independent, better, order_independent, same, value


def _rivals(inputs: torch.Tensor) -> torch.Tensor:
    """The first pixel raises the probability, the last one lowers it: 1/2 + first - last."""
    grey = inputs.mean(dim=1)
    return 0.5 + grey[:, 0, 0] - grey[:, -1, -1]


_SUM, _RIVALS = ProbabilityModel(total), ProbabilityModel(_rivals)
_KEEPS = fixture(_SUM, [[0.6, 0.2], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]])
_LOSES = fixture(_SUM, [[0.6, 0.2], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]])
_GAINS = fixture(_RIVALS, [[0.3, 0.0], [0.0, 0.2]], [[1.0, 0.0], [0.0, 0.0]])
_HARMS = fixture(_RIVALS, [[0.3, 0.0], [0.0, 0.2]], [[0.0, 0.0], [0.0, 1.0]])
_SAME = fixture(_SUM, [[0.6, 0.2], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]])
_FAKE = fixture(_SUM, torch.full((4, 4), 1 / 16), fake_cam)


def _several(channels: int = 1) -> Fixture:
    inputs = noise(5, 1, 4, 4, seed=6).repeat(1, channels, 1, 1) / 20
    maps = noise(5, 4, 4, seed=7)
    maps[3] *= 1000
    return fixture_batch(_RIVALS, inputs, maps)


def _of_each(metric: str) -> tuple[ReferenceCase, ...]:
    return (
        better(f"{metric}/oracle", metric, "Only evidence for the class stays, against only evidence against it.",
               _GAINS if metric != "average-drop" else _KEEPS, _HARMS if metric != "average-drop" else _LOSES,
               "f rises with the first pixel and falls with the last"),
        batch_independent(f"{metric}/batch", metric, _several()),
        order_independent(f"{metric}/order", metric, _several()),
        same(f"{metric}/channels", metric, "channels", "Grey images, and the same in three channels.", _several(),
             _several(3), "the mask covers all channels of a pixel"),
        same(f"{metric}/scaling", metric, "scaling", "A map m, and 10 m.", _several(),
             _several().with_maps(10 * _several().maps), "the mask is the map stretched to [0, 1]"),
    )  # fmt: skip


CASES = (
    value("average-drop/value", "average-drop", "f = Σx falls from 0.8 to 0.6.", _KEEPS, 0.25, "(0.8 - 0.6) / 0.8"),
    value("average-drop/rise", "average-drop", "The confidence rises from 0.6 to 0.8.", _GAINS, 0.0, "a rise is no drop"),
    value("average-drop/fake-cam", "average-drop", "Fake-CAM hides one pixel of sixteen equal ones.", _FAKE, 1 / 16,
          "(1 - 15/16) / 1: nearly the best there is, for a map that says nothing", kind="fake-cam"),
    value("average-increase/value", "average-increase", "The confidence rises from 0.6 to 0.8.", _GAINS, 1.0, "0.8 > 0.6"),
    value("average-increase/equal", "average-increase", "The map hides dark pixels only.", _SAME, 0.0,
          "0.8 is not more than 0.8"),
    value("average-gain/value", "average-gain", "The confidence rises from 0.6 to 0.8.", _GAINS, 0.5,
          "(0.8 - 0.6) / (1 - 0.6)"),
    value("average-gain/drop", "average-gain", "f = Σx falls from 0.8 to 0.6.", _KEEPS, 0.0, "a drop is no gain"),
    value("average-gain/fake-cam", "average-gain", "Fake-CAM hides one pixel of sixteen equal ones.",
          fixture(_SUM, torch.full((4, 4), 1 / 20), fake_cam), 0.0, "0.75 is less than 0.8: not fooled", kind="fake-cam"),
    value("local-accuracy/fall", "local-accuracy", "f = Σx falls from 0.8 to 0.6.", _KEEPS, 0.2, "|0.8 - 0.6|"),
    value("local-accuracy/rise", "local-accuracy", "The confidence rises from 0.6 to 0.8.", _GAINS, 0.2, "|0.6 - 0.8|"),
    value("local-accuracy/fake-cam", "local-accuracy", "Fake-CAM hides one pixel of sixteen equal ones.", _FAKE, 1 / 16,
          "|1 - 15/16|", kind="fake-cam"),
    better("local-accuracy/oracle", "local-accuracy", "The brighter pixel stays, against the darker one.", _KEEPS, _LOSES,
           "0.8 moves to 0.6, or to 0.2"),
    batch_independent("local-accuracy/batch", "local-accuracy", _several()),
    *(case for metric in ("average-drop", "average-increase", "average-gain") for case in _of_each(metric)),
)  # fmt: skip
