"""The outcomes of a study: a score per task and per scale, for every participant and every trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.protocol import NONE
from snellen.study.tasks import find_task

Better = Literal["high", "low", "neither"]


@dataclass(frozen=True, kw_only=True)
class OutcomeFacts:
    """What the score of an outcome means."""

    name: str
    title: str
    """On pages."""
    kind: Literal["task", "scale"]
    meaning: str
    """What a participant's score is, in words."""
    unit: str
    """Of a difference, as in `0.5 points`; empty for a share."""
    better: Better
    """Which end of the score is better."""
    bounds: tuple[float, float]
    """The lowest and the highest possible score."""
    binary: bool
    """Whether a single answer is right or wrong, so that a participant's score is a share."""


@dataclass(frozen=True, eq=False)
class OutcomeScores:
    """The scores of one outcome."""

    facts: OutcomeFacts
    arms: tuple[str, ...]
    """The arms that have this outcome, in the order of the protocol."""
    trials: pd.DataFrame
    """A row per answer: columns participant, item, arm, presentation and score."""

    @cached_property
    def participants(self) -> pd.DataFrame:
        """The mean of every participant in every arm: columns participant, arm and score."""
        return self.trials.groupby(["participant", "arm"])["score"].mean().reset_index()

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The mean of every participant in every arm and presentation."""
        return self.trials.groupby(["participant", "arm", "presentation"])["score"].mean().reset_index()

    @cached_property
    def by_arm(self) -> Mapping[str, Float[np.ndarray, " _"]]:
        """By arm, a score per participant; empty for an arm without participants."""
        scores = {str(arm): rows["score"].to_numpy(dtype=np.float64) for arm, rows in self.participants.groupby("arm")}
        return {arm: scores.get(arm, np.zeros(0)) for arm in self.arms}

    @cached_property
    def complete(self) -> pd.DataFrame:
        """Within subjects: a row per participant who has a score in every arm, a column per arm."""
        table = self.participants.pivot(index="participant", columns="arm", values="score")
        return table[[arm for arm in self.arms if arm in table.columns]].dropna()


def outcomes(study: Study, collected: StudyData) -> list[OutcomeScores]:
    """Every task and every scale of the protocol, in its order."""
    tasks = [_task(study, collected.answers, plan.task) for plan in study.protocol.tasks]
    return tasks + [_scale(study, collected.ratings, name) for name in study.protocol.scales]


def _task(study: Study, answers: pd.DataFrame, name: str) -> OutcomeScores:
    traits = find_task(name).traits
    facts = OutcomeFacts(
        name=name,
        title=traits.title,
        kind="task",
        meaning=traits.mean,
        unit=traits.unit,
        better="high" if traits.higher_is_better else "low",
        bounds=traits.bounds,
        binary=traits.binary,
    )
    rows = answers[(answers["task"] == name) & ~answers["practice"].astype(bool)]
    return _outcome(study, facts, rows, traits.needs_map)


def _scale(study: Study, ratings: pd.DataFrame, name: str) -> OutcomeScores:
    scale = study.scales[name]
    meaning = f"mean of {scale.items} statements, from 1 to {scale.points}, after reverse scoring"
    # More trust is not better: whether it is deserved shows in the tasks.
    facts = OutcomeFacts(
        name=name,
        title=name.capitalize(),
        kind="scale",
        meaning=meaning,
        unit="points",
        better="neither",
        bounds=(1.0, float(scale.points)),
        binary=False,
    )
    return _outcome(study, facts, ratings[ratings["scale"] == name], scale.needs_map)


def _outcome(study: Study, facts: OutcomeFacts, rows: pd.DataFrame, needs_map: bool) -> OutcomeScores:
    arms = tuple(arm for arm in study.protocol.arms if not (needs_map and arm == NONE))
    trials = pd.DataFrame({
        "participant": rows["participant"].astype(str),
        "item": rows["item"].astype(str),
        "arm": rows["arm"].astype(str),
        "presentation": rows["presentation"].astype(str),
        "score": pd.to_numeric(rows["score"]).astype(np.float64),
    }).dropna(subset=["score"])  # fmt: skip
    return OutcomeScores(facts, arms, trials[trials["arm"].isin(arms)].reset_index(drop=True))
