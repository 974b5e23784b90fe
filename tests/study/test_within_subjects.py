"""The parts of the comparison within subjects that no simulated study reaches, beside sums of squares worked here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from snellen.study.analysis.comparisons import MINIMUM_FOR_TESTS
from snellen.study.analysis.within_subjects import compare_within, contrasts_within

ARMS, PRESENTATIONS = ["lime", "grad-cam", "none"], ["beside", "over"]


def _cells(participants: int) -> pd.DataFrame:
    """A score per participant, arm and presentation; the arm without maps is shown in one way only."""
    generator = np.random.default_rng(3)
    rows = [
        (f"p{number}", arm, presentation, generator.normal() + (arm == "lime") * (1 + (presentation == "over")))
        for number in range(participants)
        for arm in ARMS
        for presentation in (PRESENTATIONS if arm != "none" else ["beside"])
    ]
    return pd.DataFrame(rows, columns=["participant", "arm", "presentation", "score"])


def _scores(cells: pd.DataFrame) -> pd.DataFrame:
    return cells.pivot_table(index="participant", columns="arm", values="score", aggfunc="mean")


def test_arm_and_presentation_and_both_together_by_sums_of_squares() -> None:
    cells = _cells(12)
    factors = {test.name: test for test in compare_within(_scores(cells), 12, cells).factors}
    maps = cells[cells["arm"] != "none"]
    cube = (
        maps.pivot_table(index="participant", columns=["arm", "presentation"], values="score").to_numpy().reshape(12, 2, 2)
    )
    # each effect is a contrast of four cells with values ±1; with one degree of freedom F is the square of its paired t
    signs = {"Arm": [[1, 1], [-1, -1]], "Presentation": [[1, -1], [1, -1]], "Arm × presentation": [[1, -1], [-1, 1]]}
    assert factors.keys() == signs.keys()
    for name, sign in signs.items():
        contrast = (cube * np.array(sign)).sum(axis=(1, 2))
        t = contrast.mean() / (contrast.std(ddof=1) / np.sqrt(12))
        assert factors[name].value == pytest.approx(t**2)
        assert factors[name].df == (1, 11)


def test_factors_need_participants_who_saw_every_cell() -> None:
    cells = _cells(12)
    seen = cells[(cells["presentation"] == "beside") | cells["participant"].isin(["p0", "p1"])]
    (interaction,) = compare_within(_scores(cells), 12, seen).factors
    assert interaction.name == "Arm × presentation"
    assert interaction.p is None or np.isnan(interaction.p)
    assert interaction.why.startswith("2 participants saw every arm in every presentation")


def test_one_presentation_has_no_factors() -> None:
    cells = _cells(12)
    assert compare_within(_scores(cells), 12, cells[cells["presentation"] == "beside"]).factors == ()


def test_pairs_that_cannot_be_tested_say_why() -> None:
    rising = pd.DataFrame({"a": np.arange(8.0), "b": np.arange(8.0) + 1})
    (pair,) = contrasts_within(rising)
    assert pair.difference == -1
    assert pair.why == "all participants differ by the same amount"
    (pair,) = contrasts_within(rising.iloc[: MINIMUM_FOR_TESTS - 1])
    assert pair.why == "too few participants"
