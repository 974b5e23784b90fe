"""docs/verdicts.md says what the code does: its constants, and the tables that need no simulation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import verdicts as simulation
from snellen.verdicts import MARGIN, MINIMUM_IMAGES
from snellen.verdicts.intervals import RESAMPLES
from snellen.verdicts.rule import MOST_ADVISED, OUTRIGHT
from snellen.verdicts.statistics import LEVEL
from snellen.verdicts.trust import SPLITS


@pytest.fixture(scope="module")
def text() -> str:
    return simulation.PAGE.read_text(encoding="utf-8")


def measured(text: str, name: str) -> list[str]:
    return text.split(f"<!-- measured: {name} -->\n")[1].split("<!-- end -->", maxsplit=1)[0].strip().splitlines()


def test_the_constants_are_those_of_the_code(text):
    words = " ".join(text.split())
    for phrase in (
        f"fewer than {MINIMUM_IMAGES} images",
        f"**The margin** is {MARGIN:g} standard deviations",
        f"hold *together* at {LEVEL * 100:g} %",
        f"replacement {RESAMPLES:,} times",
        f"all but {(1 - LEVEL) / 2 * 100:.0f} % of the draws on either side",
        f"more than {OUTRIGHT * 100:.0f} % of all pairs",
        f"halves {SPLITS} times",
        f"above {MOST_ADVISED:,} images",
    ):
        assert phrase in words, phrase


def test_weights_and_grades_are_up_to_date(text):
    assert measured(text, "truth") == simulation.truth_lines()
    assert measured(text, "grades") == simulation.grade_lines()


def test_the_measured_false_passes_stay_below_one_in_twenty(text):
    rows = [
        line for line in measured(text, "false passes") if line.startswith("| ") and " %" in line and "scores" not in line
    ]
    assert [line.split(" | ")[0].removeprefix("| ") for line in rows] == list(simulation.POPULATIONS)
    for line in rows:
        rates = [float(cell.removesuffix(" %")) for cell in line.strip("| ").split(" | ")[1:]]
        assert len(rates) == 2 * len(simulation.FAMILIES)
        assert max(rates) <= 5.0, line


def test_the_picture_has_a_line_per_number_of_images():
    drawn = simulation.PICTURE.read_text(encoding="utf-8")
    assert drawn.count("<polyline") == 2 * len(simulation.NUMBERS)
    assert all(f"{n} images" in drawn for n in simulation.NUMBERS)
