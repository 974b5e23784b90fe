"""The whole analysis of a study: all that the page, the file and the terminal print."""

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
from snellen.study.analysis.answer_quality import AnswerQuality, answer_quality
from snellen.study.analysis.calibration import BettingResults, Calibration, betting_results, calibrations
from snellen.study.analysis.comparisons import (
    MINIMUM_FOR_TESTS,
    ArmComparison,
    ArmDifference,
    StatisticalTest,
    compare,
)
from snellen.study.analysis.distributions import Distribution, distributions
from snellen.study.analysis.equivalence import Equivalence, equivalences, with_differences
from snellen.study.analysis.flow import Flow, participant_flow
from snellen.study.analysis.mixed_model import MixedModel, fit_mixed_model
from snellen.study.analysis.outcomes import OutcomeFacts, OutcomeScores, outcomes
from snellen.study.analysis.reliability import Reliability, reliability
from snellen.study.analysis.within_subjects import compare_within
from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.joining.agreement import Agreement
from snellen.verdicts.statistics import holm

SCHEMA = 1

PACKAGES = ("snellen", "statsmodels", "scipy", "pingouin", "pandas", "numpy")

OutcomeConclusion = Literal["differ", "no difference found", "not tested"]

OnProgress = Callable[[str, int, int], None]
"""Called with the title of the current step, its number from 0, and the number of steps."""

STORED_KEYS: Mapping[str, Mapping[str, str]] = {
    "StudySetup": {"minimum_participants": "least"},
    "Analysis": {"outcomes": "readings", "last_answer": "until"},
    "OutcomeAnalysis": {"p_holm": "holm", "without_exclusions": "again", "conclusion": "found"},
    "WithoutExclusions": {"participants": "people", "p_holm": "holm"},
    "ArmComparison": {"alternatives": "beside", "effect_size": "size"},
    "ArmDifference": {"p_holm": "holm"},
    "EffectSize": {"eta_squared": "eta", "omega_squared": "omega"},
    "Equivalence": {"p_holm": "holm", "conclusion": "found"},
    "Calibration": {"overconfidence": "over"},
    "Statement": {"rest_correlation": "rest", "alpha_without": "without"},
    "AnswerQuality": {
        "attention_checks": "checks",
        "missed_checks": "missed",
        "median_seconds": "seconds",
        "lower_quartile": "quick",
        "upper_quartile": "slow",
        "straight_lining": "straight",
    },
    "TaskAgreement": {"participants": "people", "metrics": "rows"},
    "MetricAgreement": {
        "relation": "word",
        "p_uncorrected": "chance",
        "p_holm": "p",
        "chance_deviation": "noise",
        "order_within_items": "order",
        "order_of_means": "across",
    },
}
"""By class and field, the key in `analysis.json` where it is not the name of the field."""


@dataclass(frozen=True, kw_only=True)
class WithoutExclusions:
    """The decision once more, with every participant who did not withdraw."""

    participants: int
    """How many."""
    decision: StatisticalTest
    """The test that decides, with these participants."""
    p_holm: float = math.nan
    """Its p-value after Holm's correction over the outcomes of the study."""


@dataclass(frozen=True, kw_only=True)
class OutcomeAnalysis:
    """All results of one outcome."""

    facts: OutcomeFacts
    distributions: tuple[Distribution, ...]
    """One per arm."""
    comparison: ArmComparison
    p_holm: float = math.nan
    """The p-value of the decision after Holm's correction over the outcomes of the study."""
    mixed: MixedModel | None
    """The model of single answers; only tasks have it."""
    equivalences: tuple[Equivalence, ...]
    """The tests of equality of every pair of arms; only scales have them."""
    without_exclusions: WithoutExclusions
    conclusion: OutcomeConclusion = "not tested"
    """After the correction over outcomes."""

    def different(self, pair: ArmDifference, alpha: float) -> bool:
        """Whether two arms are called different: only where the arms of this outcome differ at all."""
        return self.conclusion == "differ" and pair.p_holm < alpha


@dataclass(frozen=True, kw_only=True)
class StudySetup:
    """What was fixed before the study began."""

    title: str
    digest: str
    """The hash of protocol, stimuli and questionnaires."""
    simulated: bool
    design: str
    """`between` or `within` subjects."""
    arms: tuple[str, ...]
    alpha: float
    """The level of every test."""
    margin: float
    """Differences on a scale that are smaller count as equal, in points."""
    minimum_participants: int
    """An arm with fewer is in no test."""
    protocol: Mapping[str, Any]
    """The whole protocol, as its file holds it."""
    subject: Mapping[str, Any]
    """The run that the study was made from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Analysis:
    """The results of a study."""

    setup: StudySetup
    flow: Flow
    outcomes: tuple[OutcomeAnalysis, ...]
    calibrations: tuple[Calibration, ...]
    """One per arm of a task with certainties."""
    bets: tuple[BettingResults, ...]
    """One per arm of a task with stakes."""
    reliabilities: tuple[Reliability, ...]
    """One per questionnaire."""
    quality: tuple[AnswerQuality, ...]
    """One per group."""
    last_answer: str
    """When it arrived; empty without answers."""
    versions: Mapping[str, str]
    """By package, its version; of Python too."""
    agreement: Agreement | None = None
    """Whether the metrics of a run predict these results."""

    @property
    def tested_outcomes(self) -> int:
        """How many outcomes were tested; Holm's correction of the headline is over these."""
        return sum(outcome.comparison.decision.defined for outcome in self.outcomes)

    def as_values(self) -> dict[str, Any]:
        """The content of `analysis.json`; undefined numbers are null."""
        values = _to_json(self)
        # Rows of `calibrations` and `bets` keep the keys of schema 1, which had at most one task of each.
        values["calibration_tasks"] = {name: [row.pop("task") for row in values[name]] for name in ("calibrations", "bets")}
        return {"schema": SCHEMA, **values.pop("setup"), **values}


def analyse(
    study: Study,
    collected: StudyData,
    agreement: Agreement | None = None,
    *,
    erased: int = 0,
    on_progress: OnProgress = lambda step, number, steps: None,
) -> Analysis:
    """Analyses a study.

    Args:
        study: The study.
        collected: The answers of its participants.
        agreement: Its agreement with the metrics of a run, if that is to be on the page too.
        erased: How many participants were erased on their request.
        on_progress: Called at the beginning of every step.
    """
    protocol, counted = study.protocol, collected.counted
    tasks = [plan.task for plan in protocol.tasks]
    scores, scores_of_all = outcomes(study, counted), outcomes(study, _not_withdrawn(collected))
    analyses = []
    for number, (outcome, of_all) in enumerate(zip(scores, scores_of_all, strict=True)):
        on_progress(outcome.facts.title, number, len(scores) + 1)
        analyses.append(_analyse_outcome(study, outcome, of_all))
    on_progress("calibration and scales", len(scores), len(scores) + 1)
    times = [str(at) for at in (*collected.answers["at"], *collected.ratings["at"]) if at]
    setup = StudySetup(
        title=protocol.title,
        digest=study.digest,
        simulated=collected.simulated,
        design=protocol.design,
        arms=protocol.arms,
        alpha=protocol.alpha,
        margin=protocol.margin,
        minimum_participants=MINIMUM_FOR_TESTS,
        protocol=protocol.as_values(),
        subject=study.subject,
    )
    return Analysis(
        setup=setup,
        flow=participant_flow(protocol, collected.participants, erased),
        outcomes=_with_conclusions(analyses, protocol.alpha),
        calibrations=calibrations(counted.answers, tasks, protocol.arms),
        bets=betting_results(counted.answers, tasks, protocol.arms),
        reliabilities=tuple(reliability(study.scales[name], counted.ratings) for name in protocol.scales),
        quality=answer_quality(study, collected),
        last_answer=max(times, default=""),
        versions=_versions(),
        agreement=agreement,
    )


def compare_arms(study: Study, outcome: OutcomeScores) -> ArmComparison:
    """The tests of one outcome, by the design of the study."""
    protocol = study.protocol
    cells = outcome.cells if len(protocol.presentation) > 1 else None
    if protocol.design == "within":
        return compare_within(outcome.complete, outcome.participants["participant"].nunique(), cells)
    return compare(outcome.by_arm, cells)


def _analyse_outcome(study: Study, outcome: OutcomeScores, of_all: OutcomeScores) -> OutcomeAnalysis:
    """One outcome, before the correction over outcomes; `of_all` has the scores without exclusions."""
    protocol, within = study.protocol, study.protocol.design == "within"
    comparison = compare_arms(study, outcome)
    mixed: MixedModel | None = None
    equal: tuple[Equivalence, ...] = ()
    if outcome.facts.kind == "task":
        mixed = fit_mixed_model(outcome.trials, outcome.arms, within=within, binary=outcome.facts.binary)
    else:
        scores = outcome.complete if within else outcome.by_arm
        equal = equivalences(scores, comparison.contrasts, protocol.margin, alpha=protocol.alpha)
    return OutcomeAnalysis(
        facts=outcome.facts,
        distributions=distributions(outcome.by_arm),
        comparison=comparison,
        mixed=mixed,
        equivalences=equal,
        without_exclusions=WithoutExclusions(
            participants=of_all.participants["participant"].nunique(), decision=compare_arms(study, of_all).decision
        ),
    )


def _with_conclusions(analyses: list[OutcomeAnalysis], alpha: float) -> tuple[OutcomeAnalysis, ...]:
    """The outcomes with Holm's correction over all of them, and the conclusions that follow."""
    corrected = holm(np.array([outcome.comparison.decision.p for outcome in analyses], dtype=np.float64)).tolist()
    of_all = holm(np.array([outcome.without_exclusions.decision.p for outcome in analyses], dtype=np.float64)).tolist()
    return tuple(
        _with_conclusion(replace(outcome, without_exclusions=replace(outcome.without_exclusions, p_holm=p_of_all)), p, alpha)
        for outcome, p, p_of_all in zip(analyses, corrected, of_all, strict=True)
    )


def _with_conclusion(outcome: OutcomeAnalysis, p: float, alpha: float) -> OutcomeAnalysis:
    conclusion: OutcomeConclusion = "not tested" if math.isnan(p) else "differ" if p < alpha else "no difference found"
    outcome = replace(outcome, p_holm=p, conclusion=conclusion)
    if not outcome.equivalences:
        return outcome
    different = [outcome.different(pair, alpha) for pair in outcome.comparison.contrasts]
    return replace(outcome, equivalences=with_differences(outcome.equivalences, different, alpha=alpha))


def _not_withdrawn(collected: StudyData) -> StudyData:
    """All participants but those who withdrew, whose answers must not be used."""
    participants = collected.participants[collected.participants["state"] != "withdrawn"]
    names = set(participants["participant"])
    answers, ratings = (table[table["participant"].isin(names)] for table in (collected.answers, collected.ratings))
    return StudyData(participants=participants, answers=answers, ratings=ratings, simulated=collected.simulated)


def _versions() -> dict[str, str]:
    packages = {name: snellen.__version__ if name == "snellen" else metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | packages


def _to_json(value: Any) -> Any:
    """A value as JSON can hold it; fields of dataclasses under their stored keys."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        keys = STORED_KEYS.get(type(value).__name__, {})
        fields = (field.name for field in dataclasses.fields(value))
        return {keys.get(name, name): _to_json(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
