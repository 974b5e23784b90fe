"""Simulated people: drawn from what an `Effect` assumes, they answer the pages of a study, in memory or over HTTP.

Every person has one skill for all tasks, an attitude for every questionnaire and an eye for sharpness, each standard
normal; attitudes correlate at ½. An arm shifts them. A declared d is the Cohen's d of *participants' mean scores* that
people who look would show on this study's items, against an arm without shift: chance, ceilings and the number of items
all shrink a difference of skills, so the shift of the skill that gives this d is solved for, outcome by outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import brentq

from snellen.errors import SnellenError
from snellen.study.collected import Collected
from snellen.study.effect import Effect, Spread
from snellen.study.folder import Study
from snellen.study.gathering import Reply, Visit, gather
from snellen.study.outcomes import Given, Noise, Outcome, outcomes
from snellen.study.protocol import NONE
from snellen.study.schedule import CHOICES, Page
from snellen.study.tasks import Answer
from snellen.types import Rng

_FARTHEST = 8.0
"""No shift of skill is larger than this."""
_PACE, _TIME = 0.3, 0.4
"""Deviations of the logarithm of times, between people and between pages of one person."""
_HASTY = 0.4
"""Median seconds per page of the hasty."""
_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""When simulated studies in memory take place: long before anything real."""


@dataclass(frozen=True, eq=False)
class Behaviour:
    """How people behave in one study under one effect, with the shifts of skill that give the declared differences."""

    study: Study
    effect: Effect
    outcomes: Mapping[str, Outcome]
    shifts: Mapping[tuple[str, str], float]
    """By outcome and arm."""

    @staticmethod
    def of(study: Study, effect: Effect) -> Behaviour:
        """Solves for all shifts."""
        found = outcomes(study)
        conditions = len(study.protocol.conditions) if study.protocol.design == "within" else 1
        return Behaviour(
            study,
            effect,
            found,
            {
                (name, arm): _shift(one, effect.d(name, arm, ability=one.ability), effect.spread, conditions)
                for name, one in found.items()
                for arm in study.protocol.arms
                if arm != NONE or not one.needs_map
            },
        )

    def people(self, count: int, seed: int) -> People:
        """So many people; the same seed draws the same ones."""
        rng, crowd = Rng(seed, ()), self.effect.crowd
        draw = rng.shared("people")
        fate = draw.random(count)
        shared = draw.standard_normal(count)
        latent = {"skill": draw.standard_normal(count)}
        for name, one in self.outcomes.items():
            own = rng.shared(f"people/{name}").standard_normal(count)
            latent[name] = latent["skill"] if one.ability else (shared + own) / np.sqrt(2) if one.scale else own
        return People(
            self,
            {name: latent[name] for name in self.outcomes},
            {name: one.noise(count, rng.shared(f"answers/{name}")) for name, one in self.outcomes.items()},
            fate < crowd.inattentive,
            (fate >= crowd.inattentive) & (fate < crowd.inattentive + crowd.hasty),
            np.where(draw.random(count) < crowd.leaving, draw.random(count), 1.0),
            draw.integers(CHOICES, size=(count, self.study.protocol.attention)),
            draw.standard_normal(count),
        )


@dataclass(frozen=True, eq=False)
class People:
    """Some simulated people, a row each: what they are like, and the luck that they will have."""

    behaviour: Behaviour
    latent: Mapping[str, Float[np.ndarray, " people"]]
    """By outcome, what it takes to do well: standard normal."""
    noise: Mapping[str, Noise]
    inattentive: Bool[np.ndarray, " people"]
    hasty: Bool[np.ndarray, " people"]
    leaving: Float[np.ndarray, " people"]
    """The share of pages after which one leaves; 1 to stay."""
    checks: Int[np.ndarray, "people checks"]
    """How far the inattentive will answer beside each attention check; 0 is right by luck."""
    pace: Float[np.ndarray, " people"]
    _answers: dict[tuple[str, str], Given] = field(default_factory=dict, repr=False)
    _times: dict[str, Float[np.ndarray, "people items"]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.pace)

    def given(self, outcome: str, arm: str, rows: Int[np.ndarray, " rows"]) -> Given:
        """What these people answer to all items of an outcome in an arm."""
        one, noise, spread = self.behaviour.outcomes[outcome], _rows(self.noise[outcome], rows), self.behaviour.effect.spread
        linked = np.array([self.behaviour.effect.link.get((arm, item), 0.0) for item in one.items])
        skill = spread.people * self.latent[outcome][rows] + self.behaviour.shifts[outcome, arm]
        ease = skill[:, None] + linked - spread.items * one.difficulty
        if one.beside:
            ease = ease + spread.moments * noise.moment
        looking, guessing = one.given(ease, noise, spread.bets), one.careless(noise)
        careless = (self.inattentive | self.hasty)[rows]
        value, beside, chosen = looking.value, looking.beside, looking.chosen
        value[careless] = guessing.value[careless]
        if beside is not None and guessing.beside is not None:
            beside[careless] = guessing.beside[careless]
        if chosen is not None and guessing.chosen is not None:
            chosen[careless] = guessing.chosen[careless]
        return Given(value, beside, chosen)

    def seconds(self, outcome: str, rows: Int[np.ndarray, " rows"]) -> Float[np.ndarray, "rows items"]:
        """How long they take for each item; log-normal."""
        middle = np.where(self.hasty[rows], _HASTY, self.behaviour.effect.crowd.seconds)
        times = middle[:, None] * np.exp(_PACE * self.pace[rows, None] + _TIME * self.noise[outcome].time[rows])
        found: Float[np.ndarray, "rows items"] = np.round(times, 2)
        return found

    def replies(self, row: int) -> Replies:
        """One person, who answers page by page."""
        return Replies(self, row)

    def answers(self, outcome: str, arm: str) -> Given:
        """What everybody answers, or would in that arm; reckoned once."""
        if (outcome, arm) not in self._answers:
            self._answers[outcome, arm] = self.given(outcome, arm, np.arange(len(self)))
        return self._answers[outcome, arm]

    def times(self, outcome: str) -> Float[np.ndarray, "people items"]:
        """How long everybody takes; reckoned once."""
        if outcome not in self._times:
            self._times[outcome] = self.seconds(outcome, np.arange(len(self)))
        return self._times[outcome]


@dataclass(frozen=True, eq=False)
class Replies:
    """What one simulated person answers, page by page; the same page gets the same answer again."""

    people: People
    row: int

    def trial(self, task: str, item: str, arm: str) -> Answer:
        """The answer to an item in an arm."""
        given, place = self.people.answers(task, arm), (self.row, self._place(task, item))
        if given.chosen is not None:
            return Answer(chosen=tuple(int(one) for one in np.flatnonzero(given.chosen[place])))
        return Answer(int(given.value[place]), None if given.beside is None else int(given.beside[place]))

    def scale(self, name: str, arm: str) -> list[int]:
        """The answers to the statements of a questionnaire."""
        scale = self.people.behaviour.study.scales[name]
        # A score turned round is the answer turned round: the same step leads back.
        return [scale.score(place, int(one)) for place, one in enumerate(self.people.answers(name, arm).value[self.row], 1)]

    def check(self, turn: int, wanted: int) -> int:
        """The answer to an attention check, which asks for `wanted`; the turn counts checks from 0."""
        beside = int(self.people.checks[self.row, turn]) if self.people.inattentive[self.row] else 0
        return (wanted - 1 + beside) % CHOICES + 1

    def seconds(self, page: Page) -> float:
        """How long the person takes for a page."""
        if page.kind == "trial" and page.item is not None:
            return float(self.people.times(page.task)[self.row, self._place(page.task, page.item.id)])
        if page.kind == "scale":
            return round(float(self.people.times(page.scale)[self.row].sum()), 2)
        middle = _HASTY if self.people.hasty[self.row] else self.people.behaviour.effect.crowd.seconds
        return round(float(middle * np.exp(_PACE * self.people.pace[self.row])), 2)

    def leaves(self, place: int, pages: int) -> bool:
        """Whether the person is gone before this page, of so many."""
        share = float(self.people.leaving[self.row])
        return share < 1 and place >= int(share * pages)

    def content(self, page: Page, turn: int) -> dict[str, Any]:
        """What an event holds; `turn` counts the attention checks before this page."""
        if page.kind == "trial" and page.item is not None:
            return self.trial(page.task, page.item.id, page.condition.arm).as_values()
        if page.kind == "scale":
            return {"answers": self.scale(page.scale, page.condition.arm)}
        return {"value": self.check(turn, page.wanted)} if page.kind == "attention" else {}

    def _place(self, outcome: str, item: str) -> int:
        return self.people.behaviour.outcomes[outcome].items.index(item)


def rehearse(study: Study, participants: int, effect: Effect, *, seed: int) -> Collected:
    """The tables of a study that nobody took part in: as many simulated people, put into groups in balanced blocks."""
    people = Behaviour.of(study, effect).people(participants, seed)
    return gather(study, _visits(study, people, seed), simulated=True)


def blocks(groups: int, people: int, draw: np.random.Generator) -> Int[np.ndarray, " people"]:
    """A group for everybody: every group once before any comes again."""
    turns = [draw.permutation(groups) for _ in range(-(-people // groups))]
    return np.concatenate([np.empty(0, dtype=np.int64), *turns])[:people]


def _visits(study: Study, people: People, seed: int) -> Iterator[Visit]:
    groups = blocks(len(study.protocol.groups), len(people), Rng(seed, ()).shared("groups"))
    for number, group in enumerate(groups.tolist()):
        one, pages = people.replies(number), study.pages(group, number)
        started = now = _BEGIN + timedelta(minutes=number)
        replies: dict[str, Reply] = {}
        turn = 0
        for place, page in enumerate(pages):
            if one.leaves(place, len(pages)):
                break
            seconds = one.seconds(page)
            now += timedelta(seconds=seconds)
            replies[page.id] = Reply(one.content(page, turn), seconds, now.isoformat())
            turn += page.kind == "attention"
        done = len(replies) == len(pages)
        yield Visit(
            f"simulated{number:05d}", number, group, study.protocol.languages[0], True,
            "finished" if done else "started", started.isoformat(), now.isoformat() if done else "", replies,
        )  # fmt: skip


def _rows(noise: Noise, rows: Int[np.ndarray, " rows"]) -> Noise:
    return Noise(noise.moment[rows], noise.main[rows], noise.beside[rows], noise.careless[rows], noise.time[rows])


def _shift(one: Outcome, d: float, spread: Spread, conditions: int) -> float:
    """The shift of skill that makes people's mean scores differ by `d` from those without shift."""
    if d == 0:
        return 0.0
    none, sign = _spread_of_means(one, 0.0, spread, conditions), 1 if one.higher_is_better else -1

    def found(shift: float) -> float:
        mean, variance = _spread_of_means(one, shift, spread, conditions)
        return float(sign * (mean - none[0]) / np.sqrt((variance + none[1]) / 2))

    end = _FARTHEST if d > 0 else -_FARTHEST
    if abs(found(end)) < abs(d):
        raise SnellenError(
            f"nobody can be shifted by d = {d:g} in {one.name}: with these items the most is {found(end):.2f}; "
            "assume less, or ask for more items"
        )
    return float(brentq(lambda shift: found(shift) - d, 0.0, end, xtol=1e-4))


def _spread_of_means(one: Outcome, shift: float, spread: Spread, conditions: int) -> tuple[float, float]:
    """Mean and variance over people of the mean score, integrated over skill and luck."""
    skills, weights = _normal(21)
    lucks, chances = _normal(7 if one.beside else 1)
    ease = (shift + spread.people * skills)[:, None] + spread.moments * lucks
    each = ease.reshape(-1, 1) - spread.items * one.difficulty
    mean, square = (some.reshape(len(skills), len(lucks), -1) for some in one.moments(each, spread.bets))
    means, squares = (np.einsum("psi,s->pi", some, chances)[:, one.counts] for some in (mean, square))
    count = means.shape[1]
    met = count / conditions
    within = (squares - means**2).mean(axis=1) / met
    if conditions > 1:  # everybody meets other items in this arm, so that these add their differences
        within = within + means.var(axis=1, ddof=1) / met * (1 - met / count)
    expected = means.mean(axis=1)
    centre = float(weights @ expected)
    return centre, float(weights @ ((expected - centre) ** 2 + within))


def _normal(points: int) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Points and weights that integrate over a standard normal number."""
    at, weights = np.polynomial.hermite_e.hermegauss(points)
    return at, weights / weights.sum()
