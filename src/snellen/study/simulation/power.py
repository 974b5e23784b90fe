"""How many people a study needs: whole studies are simulated at many sizes, and tested as the analysis will test them.

The size is bisected over a ladder of sizes. Around the end of that search the power is fitted as a probit of the square root
of the size, over all sizes tried; the size where it reaches the wanted power is told with the interval that the number of
simulations leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import statsmodels.api as sm
from jaxtyping import Float
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text
from scipy import stats
from statsmodels.stats.oneway import anova_generic
from statsmodels.stats.proportion import proportion_confint

from snellen.charts import numbers
from snellen.errors import SnellenError, nearest
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import Behaviour, SimulatedParticipants
from snellen.study.simulation.effect import Effect
from snellen.study.simulation.judgement import AnswerModel
from snellen.verdicts.statistics import holm

PUBLISHED, PUBLISHED_ARMS = 166, 3
"""People and arms of the study of Kares et al. (2025)."""

LEAST, MOST = 5, 2000
"""Sizes that are searched: people who count, per group or, within subjects, in all."""

_AT_ONCE = 20_000
"""Simulated people who are kept in memory together."""

_STUDIES = 100
"""Studies after which it is asked again whether more are needed."""

Telling = Callable[[str], None]


@dataclass(frozen=True)
class DetectionRate:
    """How often simulated studies found a difference, with the interval that their number leaves."""

    found: int
    studies: int

    @property
    def share(self) -> float:
        """The power, as estimated."""
        return self.found / self.studies

    @property
    def ends(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return self._wilson(0.05)

    def clear_of(self, goal: float) -> bool:
        """Whether the goal is so far off that more studies would not change the side on which this lies."""
        low, high = self._wilson(0.001) if self.studies else (0.0, 1.0)
        return not low <= goal <= high

    def _wilson(self, alpha: float) -> tuple[float, float]:
        low, high = proportion_confint(self.found, self.studies, alpha=alpha, method="wilson")
        return float(low), float(high)


@dataclass(frozen=True)
class RequiredSize:
    """One outcome: what is assumed of it, how many people it takes, and the power of a given and the published size."""

    outcome: str
    assumed: Mapping[str, float]
    """By arm, d; without those that are 0."""
    people: int | None
    """The size; None where no difference is assumed, or where the largest size is too small."""
    low: int | None
    high: int | None
    at: Mapping[int, DetectionRate]
    """By size, its power."""


@dataclass(frozen=True)
class PowerAnalysis:
    """What `snellen study power` tells."""

    needs: tuple[RequiredSize, ...]
    groups: int
    """How many times the size is recruited: 1 within subjects, where everybody meets every arm."""
    within: bool
    goal: float
    alpha: float
    kept: float
    """The share of recruited people who count."""
    studies: int
    conditions: bool
    """Whether a group is an arm in one of several presentations."""
    outcomes: int
    """How many the study has, over which the analysis corrects, whichever were asked about."""

    def recruited(self, people: int) -> int:
        """How many to recruit in all, so that this size counts."""
        return self.groups * math.ceil(people / self.kept)

    @property
    def unit(self) -> str:
        """What `people` of a need are counted by."""
        return "in all" if self.within else "per arm and presentation" if self.conditions else "per arm"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        """A row per outcome, and in words what the numbers rest on."""
        sizes = sorted({size for need in self.needs for size in need.at})
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("outcome", no_wrap=True)
        table.add_column("assumed (d)", overflow="fold")
        for heading in (f"needed\n{self.unit}", "to recruit\nin all", *(f"power with\n{siz} {self.unit}" for siz in sizes)):
            table.add_column(heading, justify="right", no_wrap=True)
        for need in self.needs:
            table.add_row(*self._row(need, sizes))
        yield Group(Text(""), table, Text(""), *(Text(word, style="dim") for word in self._words(sizes)))

    def _row(self, need: RequiredSize, sizes: Sequence[int]) -> list[str]:
        assumed = ", ".join(f"{arm} {numbers.signed(d)}" for arm, d in need.assumed.items()) or "none"
        if not need.assumed:
            wanted, recruit = "–", "–"
        elif need.people is None:
            wanted, recruit = f"> {MOST}", "–"
        else:
            wanted = f"{need.people} [{need.low}, {need.high}]" if need.people > LEAST else f"≤ {LEAST}"
            recruit = str(self.recruited(need.people))
        return [need.outcome, assumed, wanted, recruit, *(_percents(need.at[siz]) for siz in sizes)]

    def _words(self, sizes: Sequence[int]) -> list[str]:
        test = "repeated-measures ANOVA, corrected by Greenhouse and Geisser," if self.within else "Welch's one-way ANOVA"
        words = [
            f"For a power of {100 * self.goal:g} % at alpha {self.alpha:g} by {test} on participants' means"
            f"{f', after Holm’s correction over {self.outcomes} outcomes' if self.outcomes > 1 else ''}.",
            f"By {self.studies} simulated studies of each size; brackets and ± hold the 95 % interval that this leaves.",
            f"Of the people who begin, {100 * self.kept:.0f} % count: the others leave, miss attention checks or hurry.",
        ]
        if published_size(within=self.within) in sizes:
            words.append(f"{PUBLISHED} people in {PUBLISHED_ARMS} arms took part in the study of Kares et al. (2025).")
        return words


def power(
    study: Study,
    effect: Effect,
    *,
    tasks: Sequence[str] = (),
    goal: float = 0.8,
    alpha: float | None = None,
    studies: int = 1000,
    sizes: Sequence[int] = (),
    seed: int = 0,
    tell: Telling = lambda _: None,
) -> PowerAnalysis:
    """The number of people that each outcome needs, and the power of the published size and of `sizes` (people per arm)."""
    if not 0.05 < goal < 0.999:
        raise SnellenError(f"a power of {goal:g} cannot be planned for; give a share such as 0.8")
    if studies < 100:
        raise SnellenError(f"{studies} simulated studies tell nothing about power; give at least 100")
    if any(siz < LEAST for siz in sizes):
        raise SnellenError(f"fewer than {LEAST} people per arm are never tested; give more")
    behaviour, within = Behaviour.of(study, effect), study.protocol.design == "within"
    known = list(behaviour.outcomes)
    for name in tasks:
        if name not in known:
            raise SnellenError(f"the study has no outcome '{name}'{nearest(name, known)}; it has {', '.join(known)}")
    trials = SimulatedStudies(behaviour, alpha or study.protocol.alpha, studies, seed)
    needs = []
    for name in (one for one in known if not tasks or one in tasks):
        one, people, low, high = behaviour.outcomes[name], None, None, None
        asked = [arm for arm in study.protocol.arms if (name, arm) in behaviour.shifts]
        assumed = {arm: effect.d(name, arm, ability=one.ability) for arm in asked}
        at = {}
        for size in dict.fromkeys((*sizes, published_size(within=within))):
            tell(f"{name}: {size} people")
            at[size] = trials(name, size)
        if len(set(assumed.values())) > 1:
            people, low, high = _needed(trials, name, goal, tell)
        needs.append(RequiredSize(name, {arm: d for arm, d in assumed.items() if d}, people, low, high, at))
    groups = 1 if within else len(study.protocol.groups)
    several = len(study.protocol.presentation) > 1
    return PowerAnalysis(tuple(needs), groups, within, goal, trials.alpha, trials.kept, studies, several, len(known))


def published_size(*, within: bool) -> int:
    """The published number of people, per arm or, within subjects, in all."""
    return PUBLISHED if within else PUBLISHED // PUBLISHED_ARMS


class SimulatedStudies:
    """Simulated studies by size; none is simulated twice."""

    def __init__(self, behaviour: Behaviour, alpha: float, studies: int, seed: int) -> None:
        self.behaviour, self.alpha, self.studies, self.seed = behaviour, alpha, studies, seed
        self._known: dict[int, Float[np.ndarray, "studies outcomes"]] = {}
        sample = behaviour.people(_AT_ONCE, seed)
        self.kept = float(sample.counted(behaviour.study.protocol.arms[0], np.arange(_AT_ONCE)).mean())
        if self.kept < 0.05:
            raise SnellenError("hardly anybody would count under the study's rule of exclusion; loosen it in study.yaml")

    def __call__(self, outcome: str, size: int, goal: float | None = None) -> DetectionRate:
        """How often a study of this size finds a difference; given a goal, until it is clear on which side of it that is."""
        protocol = self.behaviour.study.protocol
        recruited = max(1, round(size / self.kept)) * (1 if protocol.design == "within" else len(protocol.groups))
        while True:
            found = self.tried(outcome).get(size, DetectionRate(0, 0))
            if found.studies >= self.studies or (goal is not None and found.clear_of(goal)):
                return found
            count = min(_STUDIES, self.studies - found.studies, max(1, _AT_ONCE // recruited))
            people = self.behaviour.people(count * recruited, _mixed(self.seed, size, found.studies))
            after = np.stack([holm(chance) for chance in chances(people, count)])
            self._known[size] = np.concatenate([self._known[size], after]) if size in self._known else after

    def tried(self, outcome: str) -> dict[int, DetectionRate]:
        """All sizes that were simulated."""
        place = list(self.behaviour.outcomes).index(outcome)
        return {size: DetectionRate(int((p[:, place] < self.alpha).sum()), len(p)) for size, p in self._known.items()}


def chances(people: SimulatedParticipants, studies: int) -> Float[np.ndarray, "studies outcomes"]:
    """The p-value of every study and outcome; people are dealt out to the studies, and in each to the groups in turn."""
    protocol = people.behaviour.study.protocol
    rows = np.arange(len(people)).reshape(studies, -1)
    dealt = [rows[:, place :: len(protocol.groups)] for place in range(len(protocol.groups))]
    counted = [
        people.counted(group[0].arm, own.ravel()).reshape(own.shape)
        for group, own in zip(protocol.groups, dealt, strict=True)
    ]
    every = people.behaviour.outcomes.values()
    if protocol.design == "within":
        return np.stack([_repeated(_within(people, one, dealt), np.concatenate(counted, axis=1)) for one in every], axis=1)
    return np.stack([_welch(*_between(people, one, dealt, counted)) for one in every], axis=1)


def _between(
    people: SimulatedParticipants, one: AnswerModel, dealt: Sequence[np.ndarray], counted: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """By arm that is asked, everybody's mean score in every study, and whether it counts."""
    arms: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for (condition,), rows, there in zip(people.behaviour.study.protocol.groups, dealt, counted, strict=True):
        if (one.name, condition.arm) in people.behaviour.shifts:
            own = one.score(people.given(one.name, condition.arm, rows.ravel()))[:, one.counts].mean(axis=1)
            scores, counting = arms.setdefault(condition.arm, ([], []))
            scores.append(own.reshape(rows.shape))
            counting.append(there)
    both = [(np.concatenate(scores, axis=1), np.concatenate(counting, axis=1)) for scores, counting in arms.values()]
    return [scores for scores, _ in both], [counting for _, counting in both]


def _within(
    people: SimulatedParticipants, one: AnswerModel, dealt: Sequence[np.ndarray]
) -> Float[np.ndarray, "studies people arms"]:
    """Everybody's mean score in every arm that is asked, on the items that fall to it (see `schedule`)."""
    protocol = people.behaviour.study.protocol
    count = len(protocol.conditions)
    found = []
    for arm in (arm for arm in protocol.arms if (one.name, arm) in people.behaviour.shifts):
        groups = []
        for group, rows in enumerate(dealt):
            shares = {(place + group) % count for place, own in enumerate(protocol.conditions) if own.arm == arm}
            met = [place for place in range(int(one.counts.sum())) if one.scale or place % count in shares]
            own = one.score(people.given(one.name, arm, rows.ravel()))[:, one.counts][:, met].mean(axis=1)
            groups.append(own.reshape(rows.shape))
        found.append(np.concatenate(groups, axis=1))
    return np.stack(found, axis=-1)


def _welch(scores: Sequence[np.ndarray], counted: Sequence[np.ndarray]) -> Float[np.ndarray, " studies"]:
    """Welch's test as `compare` has it, study by study."""
    some = list(zip(scores, counted, strict=True))
    n = np.stack([there.sum(axis=1) for _, there in some], axis=1).astype(np.float64)
    mean = np.stack([np.where(there, own, 0.0).sum(axis=1) for own, there in some], axis=1) / np.maximum(n, 1)
    off = [np.where(there, own - mean[:, [at]], 0.0) ** 2 for at, (own, there) in enumerate(some)]
    variance = np.stack([one.sum(axis=1) for one in off], axis=1) / np.maximum(n - 1, 1)
    found = np.full(len(n), np.nan)
    for place in range(len(n)):
        # An arm without people or without any spread gives no test.
        if n.shape[1] > 1 and n[place].min() >= 2 and variance[place].min() > 1e-12:
            found[place] = anova_generic(
                mean[place], variance[place], n[place], use_var="unequal", welch_correction=True
            ).pvalue
    return found


def _repeated(scores: Float[np.ndarray, "studies people arms"], counted: np.ndarray) -> Float[np.ndarray, " studies"]:
    """Repeated measures with the correction of Greenhouse and Geisser, as `compare_within` has it, study by study."""
    arms, found = scores.shape[-1], np.full(len(scores), np.nan)
    for place in range(len(scores)):
        own = scores[place][counted[place]]
        if len(own) < 2 or arms < 2:
            continue
        centred = own - own.mean(axis=1, keepdims=True)
        effects = centred.mean(axis=0)
        rest = ((centred - effects) ** 2).sum()
        if rest <= 1e-12:
            continue
        value = len(own) * (effects**2).sum() * (len(own) - 1) / rest
        spread = np.cov(centred, rowvar=False)
        epsilon = np.trace(spread) ** 2 / ((arms - 1) * (spread**2).sum())
        found[place] = stats.f.sf(value, epsilon * (arms - 1), epsilon * (arms - 1) * (len(own) - 1))
    return found


def _needed(trials: SimulatedStudies, outcome: str, goal: float, tell: Telling) -> tuple[int | None, int | None, int | None]:
    """The size where the power reaches the goal, with the ends of its interval."""
    ladder = _ladder()

    def enough(place: int) -> bool:
        tell(f"{outcome}: {ladder[place]} people")
        return trials(outcome, ladder[place], goal).share >= goal

    low, high = -1, len(ladder) // 3
    while not enough(high):
        if high == len(ladder) - 1:
            return None, None, None
        low, high = high, min(high + len(ladder) // 6, len(ladder) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    if high == 0:
        return LEAST, LEAST, LEAST
    for place in (high - 2, high - 1, high, high + 1):
        if 0 <= place < len(ladder):
            tell(f"{outcome}: {ladder[place]} people")
            trials(outcome, ladder[place])
    tried = trials.tried(outcome).items()
    return _crossing({size: one for size, one in tried if 0.5 < size / ladder[high] < 2 and one.share < 1}, goal)


def _crossing(tried: Mapping[int, DetectionRate], goal: float) -> tuple[int, int, int]:
    """Where the fitted power reaches the goal; the ends are where the edges of its 95 % band do."""
    sizes = np.array(sorted(tried), dtype=np.float64)
    hits = np.array([[tried[int(siz)].found, tried[int(siz)].studies - tried[int(siz)].found] for siz in sizes])
    fitted = sm.GLM(hits, _columns(sizes), family=sm.families.Binomial(sm.families.links.Probit())).fit()
    every = np.arange(LEAST, 2 * MOST + 1)
    columns = _columns(every.astype(np.float64))
    middle = columns @ fitted.params
    reach = stats.norm.isf(0.025) * np.sqrt(np.einsum("si,ij,sj->s", columns, fitted.cov_params(), columns))

    def first(line: np.ndarray) -> int:
        there = np.flatnonzero(line >= stats.norm.ppf(goal))
        return int(every[there[0]]) if len(there) else int(every[-1])

    return first(middle), first(middle + reach), first(middle - reach)


def _columns(sizes: Float[np.ndarray, " sizes"]) -> Float[np.ndarray, "sizes two"]:
    return np.stack([np.ones_like(sizes), np.sqrt(sizes)], axis=1)


def _ladder() -> list[int]:
    """Sizes that grow by a twelfth at a time, or by one."""
    found = [LEAST]
    while found[-1] < MOST:
        found.append(min(MOST, max(found[-1] + 1, round(found[-1] * 13 / 12))))
    return found


def _mixed(seed: int, size: int, start: int) -> int:
    return (seed * 1_000_003 + size) * 1_000_003 + start


def _percents(chance: DetectionRate) -> str:
    low, high = chance.ends
    return f"{100 * chance.share:.0f} ± {50 * (high - low):.0f} %"
