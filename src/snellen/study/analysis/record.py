"""The whole analysis of a study: everything that the page, the file and the terminal tell is in this record."""

from __future__ import annotations

import dataclasses
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, Literal

import numpy as np

import snellen
from snellen.study.analysis.calibration import Bets, Calibration, bets, calibrations
from snellen.study.analysis.comparisons import LEAST_FOR_TESTS, Comparison, Contrast, Statistic, compare
from snellen.study.analysis.distributions import Distribution, distributions
from snellen.study.analysis.equivalence import Equivalence, equivalences, with_differences
from snellen.study.analysis.flow import Flow, flow
from snellen.study.analysis.mixed import Mixed, mix
from snellen.study.analysis.outcomes import Facts, Outcome, outcomes
from snellen.study.analysis.quality import Care, quality
from snellen.study.analysis.reliability import Reliability, reliability
from snellen.study.analysis.repeated import compare_within
from snellen.study.collected import Collected
from snellen.study.folder import Study
from snellen.study.joining.agreement import Agreement
from snellen.verdicts.statistics import holm

SCHEMA = 1

PACKAGES = ("snellen", "statsmodels", "scipy", "pingouin", "pandas", "numpy")

Found = Literal["differ", "no difference found", "not tested"]

Telling = Callable[[str, int, int], None]
"""Told what is worked on now, and the how-manieth of how many steps it is."""


@dataclass(frozen=True)
class Again:
    """The decision once more, with everybody who did not withdraw, whatever they answered."""

    people: int
    decision: Statistic
    holm: float = math.nan


@dataclass(frozen=True)
class Reading:
    """One outcome, with everything that is said of it."""

    facts: Facts
    distributions: tuple[Distribution, ...]
    comparison: Comparison
    holm: float
    """The decision's p after Holm's correction over the outcomes of the study."""
    mixed: Mixed | None
    equivalences: tuple[Equivalence, ...]
    again: Again
    found: Found = "not tested"

    def different(self, pair: Contrast, alpha: float) -> bool:
        """Whether two arms are called different: only where the arms of this outcome differ at all."""
        return self.found == "differ" and pair.holm < alpha


@dataclass(frozen=True, eq=False)
class Analysis:
    """What a study found."""

    title: str
    digest: str
    simulated: bool
    design: str
    arms: tuple[str, ...]
    alpha: float
    margin: float
    least: int
    protocol: Mapping[str, Any]
    subject: Mapping[str, Any]
    flow: Flow
    readings: tuple[Reading, ...]
    calibrations: tuple[Calibration, ...]
    bets: tuple[Bets, ...]
    reliabilities: tuple[Reliability, ...]
    quality: tuple[Care, ...]
    until: str
    """When the last answer arrived."""
    versions: Mapping[str, str]
    agreement: Agreement | None = None

    @property
    def family(self) -> int:
        """How many outcomes were tested, which is what the headline's correction is for."""
        return sum(reading.comparison.decision.given for reading in self.readings)

    def as_values(self) -> dict[str, Any]:
        """As it stands in `analysis.json`; what is undefined is null."""
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"schema": SCHEMA, **{name: _plain(value) for name, value in kept.items()}}


def analyse(
    study: Study,
    collected: Collected,
    agreement: Agreement | None = None,
    *,
    erased: int = 0,
    telling: Telling = lambda what, place, steps: None,
) -> Analysis:
    """Reads a study; `erased` is how many asked to be forgotten, of whom nothing else is known."""
    protocol, counted = study.protocol, collected.counted
    found = outcomes(study, counted)
    everyone = outcomes(study, _staying(collected))
    readings = []
    for place, (one, all_in) in enumerate(zip(found, everyone, strict=True)):
        telling(one.facts.title, place, len(found) + 1)
        readings.append(_reading(study, one, all_in))
    telling("calibration and scales", len(found), len(found) + 1)
    moments = [str(one) for one in (*collected.answers["at"], *collected.ratings["at"]) if one]
    return Analysis(
        protocol.title,
        study.digest,
        collected.simulated,
        protocol.design,
        protocol.arms,
        protocol.alpha,
        protocol.margin,
        LEAST_FOR_TESTS,
        protocol.as_values(),
        study.subject,
        flow(protocol, collected.participants, erased),
        _corrected(readings, protocol.alpha),
        calibrations(counted.answers, protocol.arms),
        bets(counted.answers, protocol.arms),
        tuple(reliability(study.scales[name], counted.ratings) for name in protocol.scales),
        quality(study, collected),
        max(moments, default=""),
        _versions(),
        agreement,
    )


def decide(study: Study, outcome: Outcome) -> Comparison:
    """The tests of one outcome, by the design of the study."""
    protocol = study.protocol
    cells = outcome.cells if len(protocol.presentation) > 1 else None
    if protocol.design == "within":
        return compare_within(outcome.wide, outcome.people["participant"].nunique(), cells)
    return compare(outcome.values, cells)


def _reading(study: Study, outcome: Outcome, everyone: Outcome) -> Reading:
    protocol, within = study.protocol, study.protocol.design == "within"
    comparison = decide(study, outcome)
    task = outcome.facts.kind == "task"
    mixed = mix(outcome.trials, outcome.arms, within=within, binary=outcome.facts.binary) if task else None
    equal = (
        ()
        if task
        else equivalences(
            outcome.wide if within else outcome.values, comparison.contrasts, protocol.margin, alpha=protocol.alpha
        )
    )
    again = Again(everyone.people["participant"].nunique(), decide(study, everyone).decision)
    return Reading(outcome.facts, distributions(outcome.values), comparison, math.nan, mixed, equal, again)


def _corrected(readings: list[Reading], alpha: float) -> tuple[Reading, ...]:
    """With Holm's correction over the outcomes, and what is found after it."""
    first = holm(np.array([reading.comparison.decision.p for reading in readings], dtype=np.float64)).tolist()
    second = holm(np.array([reading.again.decision.p for reading in readings], dtype=np.float64)).tolist()
    found = []
    for reading, p, other in zip(readings, first, second, strict=True):
        word: Found = "not tested" if math.isnan(p) else "differ" if p < alpha else "no difference found"
        judged = replace(reading, holm=p, again=replace(reading.again, holm=other), found=word)
        different = [judged.different(pair, alpha) for pair in judged.comparison.contrasts]
        equal = with_differences(judged.equivalences, different, alpha=alpha) if judged.equivalences else ()
        found.append(replace(judged, equivalences=equal))
    return tuple(found)


def _staying(collected: Collected) -> Collected:
    """Everybody but those who withdrew, whose answers are nobody's to use."""
    people = collected.participants[collected.participants["state"] != "withdrawn"]
    known = set(people["participant"])
    answers, ratings = (one[one["participant"].isin(known)] for one in (collected.answers, collected.ratings))
    return Collected(people, answers, ratings, collected.simulated)


def _versions() -> dict[str, str]:
    known = {name: snellen.__version__ if name == "snellen" else metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | known


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
