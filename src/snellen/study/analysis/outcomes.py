"""What a study measures: a score per task and per scale, for every participant and, for the mixed model, every trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from snellen.study.collected import Collected
from snellen.study.folder import Study
from snellen.study.tasks import find_task

Better = Literal["high", "low", "neither"]


@dataclass(frozen=True)
class Facts:
    """What a number of an outcome means."""

    name: str
    title: str
    kind: Literal["task", "scale"]
    meaning: str
    """What a participant's number is, in words."""
    unit: str
    """What a difference of one is called, as in `0.5 points`; nothing for a share."""
    better: Better
    bounds: tuple[float, float]
    binary: bool
    """Whether a single answer is right or wrong, so that a participant's number is a share."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """One outcome: its facts, and single scores with the columns participant, item, arm, presentation and score."""

    facts: Facts
    arms: tuple[str, ...]
    """The arms in which it was asked for, in the order of the protocol."""
    trials: pd.DataFrame

    @cached_property
    def people(self) -> pd.DataFrame:
        """The mean of every participant in every arm: columns participant, arm and score."""
        return self.trials.groupby(["participant", "arm"])["score"].mean().reset_index()

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The mean of every participant in every arm and presentation."""
        return self.trials.groupby(["participant", "arm", "presentation"])["score"].mean().reset_index()

    @cached_property
    def values(self) -> Mapping[str, Float[np.ndarray, " people"]]:
        """By arm, a number per participant; nobody's is an empty row."""
        rows = {str(arm): part["score"].to_numpy(dtype=np.float64) for arm, part in self.people.groupby("arm")}
        return {arm: rows.get(arm, np.zeros(0)) for arm in self.arms}

    @cached_property
    def wide(self) -> pd.DataFrame:
        """Within subjects: a row per participant who has a number in every arm, a column per arm."""
        table = self.people.pivot(index="participant", columns="arm", values="score")
        there = [arm for arm in self.arms if arm in table.columns]
        return table[there].dropna()


def outcomes(study: Study, collected: Collected) -> list[Outcome]:
    """Every task and every scale of the protocol, in its order."""
    found = [_task(study, collected.answers, plan.task) for plan in study.protocol.tasks]
    return found + [_scale(study, collected.ratings, name) for name in study.protocol.scales]


def _task(study: Study, answers: pd.DataFrame, name: str) -> Outcome:
    traits = find_task(name).traits
    better: Better = "high" if traits.higher_is_better else "low"
    facts = Facts(name, traits.title, "task", traits.mean, traits.unit, better, traits.bounds, traits.binary)
    rows = answers[(answers["task"] == name) & ~answers["practice"].astype(bool)]
    return _outcome(study, facts, rows, traits.needs_map)


def _scale(study: Study, ratings: pd.DataFrame, name: str) -> Outcome:
    scale = study.scales[name]
    meaning = f"mean of {scale.items} statements, from 1 to {scale.points}, reversed ones turned round"
    # More trust is not better trust; which of the two it is shows in the tasks.
    facts = Facts(name, name.capitalize(), "scale", meaning, "points", "neither", (1.0, float(scale.points)), False)
    return _outcome(study, facts, ratings[ratings["scale"] == name], scale.needs_map)


def _outcome(study: Study, facts: Facts, rows: pd.DataFrame, needs_map: bool) -> Outcome:
    arms = tuple(arm for arm in study.protocol.arms if not (needs_map and arm == "none"))
    trials = pd.DataFrame({
        "participant": rows["participant"].astype(str),
        "item": rows["item"].astype(str),
        "arm": rows["arm"].astype(str),
        "presentation": rows["presentation"].astype(str),
        "score": pd.to_numeric(rows["score"]).astype(np.float64),
    }).dropna(subset=["score"])  # fmt: skip
    return Outcome(facts, arms, trials[trials["arm"].isin(arms)].reset_index(drop=True))
