"""How carefully people answered: attention checks, time, and the same answer to every statement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from snellen.study.analysis.flow import group_name
from snellen.study.collected import Collected
from snellen.study.folder import Study


@dataclass(frozen=True)
class Care:
    """Those of one group who finished, whether or not they count."""

    name: str
    finished: int
    checks: int
    """Attention checks that they answered."""
    missed: int
    seconds: float
    """The median of their median times per trial, in seconds, with its quartiles."""
    quick: float
    slow: float
    straight: dict[str, int]
    """By scale, how many gave the same answer to every statement, although one of them is reversed or not."""


def quality(study: Study, collected: Collected) -> tuple[Care, ...]:
    """Every group."""
    people = collected.participants[collected.participants["state"] == "finished"]
    lines = _straight(collected.ratings)
    return tuple(
        _care(group_name(study.protocol, place), people[people["group"] == place], lines, study)
        for place in range(len(study.protocol.groups))
    )


def _care(name: str, people: pd.DataFrame, lines: pd.DataFrame, study: Study) -> Care:
    times = pd.to_numeric(people["median_seconds"]).dropna().to_numpy(dtype=np.float64)
    middle, quick, slow = map(float, np.percentile(times, [50, 25, 75])) if len(times) else (math.nan,) * 3
    own = lines[lines["participant"].isin(set(people["participant"]))]
    straight = {
        scale: int(own.loc[(own["scale"] == scale) & own["straight"], "participant"].nunique())
        for scale in study.protocol.scales
    }
    return Care(
        name,
        len(people),
        int(people["attention_shown"].sum()),
        int(people["attention_missed"].sum()),
        middle,
        quick,
        slow,
        straight,
    )


def _straight(ratings: pd.DataFrame) -> pd.DataFrame:
    """Per participant, scale and condition, whether all answers are the same before reversing."""
    keys = ["participant", "scale", "arm", "presentation"]
    found = ratings.groupby(keys)["answer"].agg(["nunique", "size"]).reset_index()
    return found.assign(straight=(found["nunique"] == 1) & (found["size"] > 1))
