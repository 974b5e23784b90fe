"""What is tried of each method hangs on the run alone, not on the machine, the hour or the other methods."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cards.planted_loaded_run import measured, planted_run

from snellen.runs import Run

COSTLY = ["integrated-gradients(steps=8)", "smoothgrad(samples=4)", "gradient"]


def plan(run: Run) -> Any:
    return json.loads((run.folder / "methodology" / "measured.json").read_bytes())["plan"]


@pytest.mark.slow
@pytest.mark.parametrize("slower", [pytest.param(0.1, marks=pytest.mark.exhaustive), 10.0])
def test_a_busy_machine_plans_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float) -> None:
    """Both what the clock says of a map and what it says of the model are ten times as much, or as little."""
    settings = {"images": 3, "seeds": 2, "passes": 4}  # 4 passes of 224×224 are 348 of 24×24: not enough for everything
    quiet = planted_run(tmp_path / "quiet", COSTLY, ["sparseness"])
    first = measured(quiet, **settings)
    clock = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: slower * clock())
    busy = planted_run(tmp_path / "busy", COSTLY, ["sparseness"])
    second = measured(busy, **settings)
    assert plan(busy) == plan(quiet)
    left = [reason for entry in plan(quiet).values() for *_, reason in entry["left"]]
    assert "a map would cost about as much as 300 forward passes" in left, "everything fits, so nothing is shown"
    assert {entry["swept"] for entry in plan(quiet).values()} == {1, 3}
    for name in COSTLY:
        for attribute in ("determinism", "hyperparameter-dependence"):
            assert second[name][attribute].sentence == first[name][attribute].sentence
            assert second[name][attribute].share == first[name][attribute].share


@pytest.mark.slow
def test_the_plan_of_a_method_does_not_hang_on_the_others_or_on_when_they_came(tmp_path: Path) -> None:
    together = planted_run(tmp_path / "together", COSTLY, None)
    measured(together, passes=4)
    for some in (COSTLY[:1], COSTLY):
        grown = planted_run(tmp_path / "grown", some, None)
        measured(grown, passes=4)
    assert plan(grown) == plan(together)


def test_with_the_least_budget_every_setting_is_tried_once(tmp_path: Path) -> None:
    findings = measured(planted_run(tmp_path, COSTLY[:1], None), passes=0)[COSTLY[0]]
    settings = findings["hyperparameter-dependence"].numbers["settings"]
    tried = {name: len(setting["values"]) for name, setting in settings.items()}
    assert tried == {"steps": 1, "tolerance": 1, "baseline": 1, "of": 1, "fold": 1}
    assert (findings["determinism"].numbers["n"], findings["determinism"].numbers["seeds"]) == (1, 2)
