"""How many participants a study needs: whole studies are simulated at many sizes, and tested as the analysis will test them.

The size is bisected over a list of sizes. Around the result the power is fitted as a probit of the square root of the size,
over all simulated sizes; the size where it reaches the goal has an interval for the limited number of simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import statsmodels.api as sm
from jaxtyping import Float
from scipy import stats
from statsmodels.stats.oneway import anova_generic
from statsmodels.stats.proportion import proportion_confint

from snellen.errors import SnellenError, nearest
from snellen.study.folder import Study
from snellen.study.simulation.answer_model import AnswerModel
from snellen.study.simulation.behaviour import Behaviour, SimulatedParticipants
from snellen.study.simulation.effect import Effect
from snellen.verdicts.statistics import holm

PUBLISHED, PUBLISHED_ARMS = 166, 3
"""Participants and arms of the study of Kares et al. (2025)."""

MINIMUM_SIZE, MAXIMUM_SIZE = 5, 2000
"""Sizes that are searched: participants who are analysed, per group or, within subjects, in all."""

_BATCH = 20_000
"""Simulated participants in memory together."""

_STUDIES = 100
"""Studies that are simulated before it is checked whether more are needed."""

OnProgress = Callable[[str], None]
"""Called with what is simulated now."""


@dataclass(frozen=True)
class DetectionRate:
    """How many of so many simulated studies detected a difference."""

    detected: int
    """Studies with a p-value below alpha."""
    studies: int

    @property
    def share(self) -> float:
        """The estimated power."""
        return self.detected / self.studies

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the power."""
        return self._wilson(0.05)

    def excludes(self, goal: float) -> bool:
        """Whether the power is so far from the goal that more studies would not change on which side it lies."""
        low, high = self._wilson(0.001) if self.studies else (0.0, 1.0)
        return not low <= goal <= high

    def _wilson(self, alpha: float) -> tuple[float, float]:
        low, high = proportion_confint(self.detected, self.studies, alpha=alpha, method="wilson")
        return float(low), float(high)


@dataclass(frozen=True, kw_only=True)
class RequiredSize:
    """The size that one outcome needs, and its power at some sizes."""

    outcome: str
    """Name of the task or questionnaire."""
    assumed: Mapping[str, float]
    """By arm, d; without those that are 0."""
    size: int | None
    """None where no difference is assumed, or where the largest size is too small."""
    low: int | None
    high: int | None
    """The ends of its 95 % interval, for the limited number of simulations."""
    power: Mapping[int, DetectionRate]
    """By size."""


@dataclass(frozen=True, kw_only=True)
class PowerAnalysis:
    """The result of `snellen study power`."""

    outcomes: tuple[RequiredSize, ...]
    groups: int
    """How many times the size is recruited: 1 within subjects, where everybody sees every arm."""
    within: bool
    """Whether every participant sees every arm."""
    goal: float
    """The power to reach."""
    alpha: float
    """The level of the test."""
    counted_share: float
    """The share of recruited participants who are analysed."""
    studies: int
    """Simulated studies per size."""
    several_presentations: bool
    """Whether a group is an arm in one of several presentations."""
    outcomes_of_study: int
    """The analysis corrects over all of them, also those that are not in `outcomes`."""

    def recruited(self, size: int) -> int:
        """How many to recruit in all, so that this size is analysed."""
        return self.groups * math.ceil(size / self.counted_share)


def power(
    study: Study,
    effect: Effect,
    *,
    outcomes: Sequence[str] = (),
    goal: float = 0.8,
    alpha: float | None = None,
    studies: int = 1000,
    sizes: Sequence[int] = (),
    seed: int = 0,
    on_progress: OnProgress = lambda _: None,
) -> PowerAnalysis:
    """The size that each outcome needs, and the power of the published size and of `sizes`.

    Args:
        study: The study.
        effect: The assumed differences.
        outcomes: Tasks and questionnaires; all by default.
        goal: The probability with which a difference is to be detected.
        alpha: The level of the test; the study's by default.
        studies: Simulated studies per size.
        sizes: Participants per arm, or in all within subjects, for which the power is estimated too.
        seed: Another seed draws other participants.
        on_progress: Called before each simulation.
    """
    if not 0.05 < goal < 0.999:
        raise SnellenError(f"a power of {goal:g} cannot be planned for; give a share such as 0.8")
    if studies < 100:
        raise SnellenError(f"{studies} simulated studies are too few to estimate power; give at least 100")
    if any(size < MINIMUM_SIZE for size in sizes):
        raise SnellenError(f"fewer than {MINIMUM_SIZE} people per arm are never tested; give more")
    behaviour, protocol = Behaviour.of(study, effect), study.protocol
    within, names = protocol.design == "within", list(behaviour.outcomes)
    for name in outcomes:
        if name not in names:
            raise SnellenError(f"the study has no outcome '{name}'{nearest(name, names)}; it has {', '.join(names)}")
    simulations = SimulatedStudies(behaviour, alpha=alpha or protocol.alpha, studies=studies, seed=seed)
    results = []
    for name in (name for name in names if not outcomes or name in outcomes):
        arms = [arm for arm in protocol.arms if (name, arm) in behaviour.shifts]
        assumed = {arm: effect.d(name, arm, ability=behaviour.outcomes[name].ability) for arm in arms}
        rates = {}
        for size in dict.fromkeys((*sizes, published_size(within=within))):
            on_progress(f"{name}: {size} people")
            rates[size] = simulations(name, size)
        differs = len(set(assumed.values())) > 1
        required, low, high = _required_size(simulations, name, goal, on_progress) if differs else (None,) * 3
        results.append(
            RequiredSize(
                outcome=name,
                assumed={arm: d for arm, d in assumed.items() if d},
                size=required,
                low=low,
                high=high,
                power=rates,
            )
        )
    return PowerAnalysis(
        outcomes=tuple(results),
        groups=1 if within else len(protocol.groups),
        within=within,
        goal=goal,
        alpha=simulations.alpha,
        counted_share=simulations.counted_share,
        studies=studies,
        several_presentations=len(protocol.presentation) > 1,
        outcomes_of_study=len(names),
    )


def published_size(*, within: bool) -> int:
    """The published number of participants, per arm or, within subjects, in all."""
    return PUBLISHED if within else PUBLISHED // PUBLISHED_ARMS


class SimulatedStudies:
    """Simulated studies by size; p-values are cached, so that no study is simulated twice."""

    def __init__(self, behaviour: Behaviour, *, alpha: float, studies: int, seed: int) -> None:
        self.behaviour, self.alpha, self.studies, self.seed = behaviour, alpha, studies, seed
        self._p_values: dict[int, Float[np.ndarray, "studies outcomes"]] = {}
        sample = behaviour.participants(_BATCH, seed)
        self.counted_share = float(sample.counted(behaviour.study.protocol.arms[0], np.arange(_BATCH)).mean())
        if self.counted_share < 0.05:
            raise SnellenError("hardly anybody would count under the study's rule of exclusion; loosen it in study.yaml")

    def __call__(self, outcome: str, size: int, goal: float | None = None) -> DetectionRate:
        """How often a study of this size detects a difference.

        With a goal, the simulation stops as soon as it is clear on which side of the goal the power lies.
        """
        protocol = self.behaviour.study.protocol
        groups = 1 if protocol.design == "within" else len(protocol.groups)
        recruited = max(1, round(size / self.counted_share)) * groups
        while True:
            rate = self.rates(outcome).get(size, DetectionRate(0, 0))
            if rate.studies >= self.studies or (goal is not None and rate.excludes(goal)):
                return rate
            count = min(_STUDIES, self.studies - rate.studies, max(1, _BATCH // recruited))
            participants = self.behaviour.participants(count * recruited, _mix_seed(self.seed, size, rate.studies))
            corrected = np.stack([holm(study) for study in p_values(participants, count)])
            earlier = self._p_values.get(size)
            self._p_values[size] = corrected if earlier is None else np.concatenate([earlier, corrected])

    def rates(self, outcome: str) -> dict[int, DetectionRate]:
        """By size, the detection rate of all simulated studies."""
        column = list(self.behaviour.outcomes).index(outcome)
        return {size: DetectionRate(int((p[:, column] < self.alpha).sum()), len(p)) for size, p in self._p_values.items()}


def p_values(participants: SimulatedParticipants, studies: int) -> Float[np.ndarray, "studies outcomes"]:
    """The p-value of every study and outcome; participants are divided over studies, and then over groups in turn."""
    protocol, models = participants.behaviour.study.protocol, participants.behaviour.outcomes.values()
    rows = np.arange(len(participants)).reshape(studies, -1)
    groups = [rows[:, group :: len(protocol.groups)] for group in range(len(protocol.groups))]
    counted = [
        participants.counted(conditions[0].arm, own.ravel()).reshape(own.shape)
        for conditions, own in zip(protocol.groups, groups, strict=True)
    ]
    if protocol.design == "within":
        everyone = np.concatenate(counted, axis=1)
        return np.stack([_repeated(_scores_within(participants, model, groups), everyone) for model in models], axis=1)
    return np.stack([_welch(*_scores_between(participants, model, groups, counted)) for model in models], axis=1)


def _scores_between(
    participants: SimulatedParticipants, model: AnswerModel, groups: Sequence[np.ndarray], counted: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """By arm with this outcome, the mean score of every participant in every study, and whether it is analysed."""
    arms: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for (condition,), rows, included in zip(participants.behaviour.study.protocol.groups, groups, counted, strict=True):
        if (model.name, condition.arm) in participants.behaviour.shifts:
            answers = participants.simulate(model.name, condition.arm, rows.ravel())
            means = model.score(answers)[:, model.counts].mean(axis=1)
            arm_scores, arm_included = arms.setdefault(condition.arm, ([], []))
            arm_scores.append(means.reshape(rows.shape))
            arm_included.append(included)
    return (
        [np.concatenate(scores, axis=1) for scores, _ in arms.values()],
        [np.concatenate(included, axis=1) for _, included in arms.values()],
    )


def _scores_within(
    participants: SimulatedParticipants, model: AnswerModel, groups: Sequence[np.ndarray]
) -> Float[np.ndarray, "studies people arms"]:
    """The mean score of every participant in every arm with this outcome, on the items of that arm (see `schedule`)."""
    protocol = participants.behaviour.study.protocol
    count, items = len(protocol.conditions), range(int(model.counts.sum()))
    arms = []
    for arm in (arm for arm in protocol.arms if (model.name, arm) in participants.behaviour.shifts):
        scores = []
        for group, rows in enumerate(groups):
            shares = {(position + group) % count for position, own in enumerate(protocol.conditions) if own.arm == arm}
            seen = [item for item in items if model.scale or item % count in shares]
            answers = participants.simulate(model.name, arm, rows.ravel())
            means = model.score(answers)[:, model.counts][:, seen].mean(axis=1)
            scores.append(means.reshape(rows.shape))
        arms.append(np.concatenate(scores, axis=1))
    return np.stack(arms, axis=-1)


def _welch(scores: Sequence[np.ndarray], counted: Sequence[np.ndarray]) -> Float[np.ndarray, " studies"]:
    """The p-values of Welch's test, as in `analysis.compare`, study by study."""
    arms = list(zip(scores, counted, strict=True))
    n = np.stack([included.sum(axis=1) for _, included in arms], axis=1).astype(np.float64)
    mean = np.stack([np.where(included, own, 0.0).sum(axis=1) for own, included in arms], axis=1) / np.maximum(n, 1)
    squares = [np.where(included, own - mean[:, [arm]], 0.0) ** 2 for arm, (own, included) in enumerate(arms)]
    variance = np.stack([square.sum(axis=1) for square in squares], axis=1) / np.maximum(n - 1, 1)
    p = np.full(len(n), np.nan)
    for study in range(len(n)):
        # An arm without participants or without spread gives no test.
        if n.shape[1] > 1 and n[study].min() >= 2 and variance[study].min() > 1e-12:
            test = anova_generic(mean[study], variance[study], n[study], use_var="unequal", welch_correction=True)
            p[study] = test.pvalue
    return p


def _repeated(scores: Float[np.ndarray, "studies people arms"], counted: np.ndarray) -> Float[np.ndarray, " studies"]:
    """The p-values of repeated measures, corrected by Greenhouse and Geisser as in `compare_within`, study by study."""
    arms, p = scores.shape[-1], np.full(len(scores), np.nan)
    for study in range(len(scores)):
        own = scores[study][counted[study]]
        if len(own) < 2 or arms < 2:
            continue
        centred = own - own.mean(axis=1, keepdims=True)
        effects = centred.mean(axis=0)
        residual = ((centred - effects) ** 2).sum()
        if residual <= 1e-12:
            continue
        f = len(own) * (effects**2).sum() * (len(own) - 1) / residual
        covariance = np.cov(centred, rowvar=False)
        epsilon = np.trace(covariance) ** 2 / ((arms - 1) * (covariance**2).sum())
        p[study] = stats.f.sf(f, epsilon * (arms - 1), epsilon * (arms - 1) * (len(own) - 1))
    return p


def _required_size(
    simulations: SimulatedStudies, outcome: str, goal: float, on_progress: OnProgress
) -> tuple[int | None, int | None, int | None]:
    """The size where the power reaches the goal, with the ends of its interval; None where no size is large enough."""
    sizes = _sizes()

    def reaches_goal(position: int) -> bool:
        on_progress(f"{outcome}: {sizes[position]} people")
        return simulations(outcome, sizes[position], goal).share >= goal

    low, high = -1, len(sizes) // 3
    while not reaches_goal(high):
        if high == len(sizes) - 1:
            return None, None, None
        low, high = high, min(high + len(sizes) // 6, len(sizes) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches_goal(middle) else (middle, high)
    if high == 0:
        return MINIMUM_SIZE, MINIMUM_SIZE, MINIMUM_SIZE
    for position in (high - 2, high - 1, high, high + 1):
        if 0 <= position < len(sizes):
            on_progress(f"{outcome}: {sizes[position]} people")
            simulations(outcome, sizes[position])
    rates = simulations.rates(outcome).items()
    return _crossing({size: rate for size, rate in rates if 0.5 < size / sizes[high] < 2 and rate.share < 1}, goal)


def _crossing(rates: Mapping[int, DetectionRate], goal: float) -> tuple[int, int, int]:
    """The size where the fitted power reaches the goal, and where the edges of its 95 % band do."""
    sizes = np.array(sorted(rates), dtype=np.float64)
    ordered = [rates[int(size)] for size in sizes]
    counts = np.array([[rate.detected, rate.studies - rate.detected] for rate in ordered])
    fitted = sm.GLM(counts, _design(sizes), family=sm.families.Binomial(sm.families.links.Probit())).fit()
    grid = np.arange(MINIMUM_SIZE, 2 * MAXIMUM_SIZE + 1)
    design = _design(grid.astype(np.float64))
    probit = design @ fitted.params
    half_width = stats.norm.isf(0.025) * np.sqrt(np.einsum("si,ij,sj->s", design, fitted.cov_params(), design))

    def first_above_goal(line: np.ndarray) -> int:
        above = np.flatnonzero(line >= stats.norm.ppf(goal))
        return int(grid[above[0]]) if len(above) else int(grid[-1])

    return first_above_goal(probit), first_above_goal(probit + half_width), first_above_goal(probit - half_width)


def _design(sizes: Float[np.ndarray, " sizes"]) -> Float[np.ndarray, "sizes two"]:
    return np.stack([np.ones_like(sizes), np.sqrt(sizes)], axis=1)


def _sizes() -> list[int]:
    """Sizes that grow by a twelfth at a time, or by one."""
    sizes = [MINIMUM_SIZE]
    while sizes[-1] < MAXIMUM_SIZE:
        sizes.append(min(MAXIMUM_SIZE, max(sizes[-1] + 1, round(sizes[-1] * 13 / 12))))
    return sizes


def _mix_seed(seed: int, size: int, start: int) -> int:
    return (seed * 1_000_003 + size) * 1_000_003 + start
