"""How carefully participants answered: attention checks, time per trial, and the same answer to every statement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from snellen.study.analysis.flow import group_name
from snellen.study.data import StudyData
from snellen.study.folder import Study


@dataclass(frozen=True, kw_only=True)
class AnswerQuality:
    """The participants of one group who finished, excluded ones too."""

    name: str
    finished: int
    """How many participants."""
    attention_checks: int
    """How many they answered."""
    missed_checks: int
    """Of these, how many were not answered as asked."""
    median_seconds: float
    """The median over participants of their median time per trial."""
    lower_quartile: float
    upper_quartile: float
    """The quartiles over participants of the same, in seconds."""
    straight_lining: dict[str, int]
    """By scale, how many gave the same answer to every statement, before reversing."""


def answer_quality(study: Study, collected: StudyData) -> tuple[AnswerQuality, ...]:
    """The answer quality of every group."""
    participants = collected.participants[collected.participants["state"] == "finished"]
    straight = _straight_lining(collected.ratings)
    return tuple(
        _group_quality(group_name(study.protocol, group), participants[participants["group"] == group], straight, study)
        for group in range(len(study.protocol.groups))
    )


def _group_quality(name: str, participants: pd.DataFrame, straight: pd.DataFrame, study: Study) -> AnswerQuality:
    seconds = pd.to_numeric(participants["median_seconds"]).dropna().to_numpy(dtype=np.float64)
    median, lower, upper = map(float, np.percentile(seconds, [50, 25, 75])) if len(seconds) else (math.nan,) * 3
    group = straight[straight["participant"].isin(set(participants["participant"]))]
    return AnswerQuality(
        name=name,
        finished=len(participants),
        attention_checks=int(participants["attention_shown"].sum()),
        missed_checks=int(participants["attention_missed"].sum()),
        median_seconds=median,
        lower_quartile=lower,
        upper_quartile=upper,
        straight_lining={
            scale: int(group.loc[(group["scale"] == scale) & group["straight"], "participant"].nunique())
            for scale in study.protocol.scales
        },
    )


def _straight_lining(ratings: pd.DataFrame) -> pd.DataFrame:
    """Per participant, scale and condition, whether all answers are the same before reversing."""
    keys = ["participant", "scale", "arm", "presentation"]
    answers = ratings.groupby(keys)["answer"].agg(["nunique", "size"]).reset_index()
    return answers.assign(straight=(answers["nunique"] == 1) & (answers["size"] > 1))
