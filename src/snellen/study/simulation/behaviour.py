"""Simulated people: drawn from what an `Effect` assumes, they answer the pages of a study, in memory or over HTTP.

Every person has one skill for all tasks, an attitude for every questionnaire and an eye for sharpness, each standard
normal; attitudes correlate at about ½. An arm shifts them. A declared d is the Cohen's d of *participants' mean scores* that
people who look would show on this study's items, against an arm without shift: chance, ceilings and the number of items
all shrink a difference of skills, so the shift of the skill that gives this d is solved for, outcome by outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import brentq

from snellen.errors import SnellenError
from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.participation import Participation, Reply, collect_data
from snellen.study.protocol import NONE
from snellen.study.schedule import CHOICES, Page
from snellen.study.simulation.effect import Effect, SkillSpread
from snellen.study.simulation.judgement import AnswerModel, answer_models
from snellen.study.tasks import Answer, AnswerBatch, AnswerNoise
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
    outcomes: Mapping[str, AnswerModel]
    shifts: Mapping[tuple[str, str], float]
    """By outcome and arm."""

    @staticmethod
    def of(study: Study, effect: Effect) -> Behaviour:
        """Solves for all shifts."""
        found = answer_models(study)
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

    def people(self, count: int, seed: int) -> SimulatedParticipants:
        """So many people; the same seed draws the same ones."""
        crowd, draw = self.effect.crowd, Rng(seed, ()).shared("people")
        fate = draw.random(count)
        return SimulatedParticipants(
            self,
            seed,
            fate < crowd.inattentive,
            (fate >= crowd.inattentive) & (fate < crowd.inattentive + crowd.hasty),
            np.where(draw.random(count) < crowd.leaving, draw.random(count), 1.0),
            draw.integers(CHOICES, size=(count, self.study.protocol.attention)),
            draw.standard_normal(count),
        )


@dataclass(frozen=True, eq=False)
class SimulatedParticipants:
    """Some simulated people, a row each: what they are like, and the luck that they will have."""

    behaviour: Behaviour
    seed: int
    inattentive: Bool[np.ndarray, " people"]
    hasty: Bool[np.ndarray, " people"]
    leaving: Float[np.ndarray, " people"]
    """The share of pages after which one leaves; 1 to stay."""
    checks: Int[np.ndarray, "people checks"]
    """How far the inattentive will answer beside each attention check; 0 is right by luck."""
    pace: Float[np.ndarray, " people"]
    _drawn: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.pace)

    def latent(self, outcome: str, arm: str) -> Float[np.ndarray, " people"]:
        """What it takes to do well in an outcome and an arm: standard normal, and the same skill in all tasks."""
        one, part = self.behaviour.outcomes[outcome], self.behaviour.effect.spread.arms
        traits = ["skill"] if one.ability else [outcome, "attitude"] if one.scale else [outcome]
        always, here = (sum(self._normal(f"{name}{end}") for name in traits) for end in ("", f"/{arm}"))
        found: Float[np.ndarray, " people"] = (np.sqrt(1 - part) * always + np.sqrt(part) * here) / np.sqrt(len(traits))
        return found

    def noise(self, outcome: str, arm: str) -> AnswerNoise:
        """Everybody's luck; a questionnaire that one person meets in every arm is answered anew each time."""
        one = self.behaviour.outcomes[outcome]
        again = one.scale is not None and self.behaviour.study.protocol.design == "within"
        name = f"answers/{outcome}/{arm}" if again else f"answers/{outcome}"
        found: AnswerNoise = self._once(name, lambda draw: one.noise(len(self), draw))
        return found

    def given(self, outcome: str, arm: str, rows: Int[np.ndarray, " rows"]) -> AnswerBatch:
        """What these people answer to all items of an outcome in an arm."""
        one, noise, spread = (
            self.behaviour.outcomes[outcome],
            self.noise(outcome, arm).of(rows),
            self.behaviour.effect.spread,
        )
        linked = np.array([self.behaviour.effect.link.get((arm, item), 0.0) for item in one.items])
        skill = spread.people * self.latent(outcome, arm)[rows] + self.behaviour.shifts[outcome, arm]
        ease = skill[:, None] + (linked - spread.items * one.difficulty)
        if noise.moment is not None:
            ease = ease + spread.moments * noise.moment
        found = one.given(ease, noise, spread.bets)
        careless = (self.inattentive | self.hasty)[rows]
        guessed = one.careless(noise.of(careless))
        for looking, guessing in (
            (found.value, guessed.value),
            (found.beside, guessed.beside),
            (found.chosen, guessed.chosen),
        ):
            if looking is not None:
                looking[careless] = guessing
        return found

    def seconds(self, outcome: str) -> Float[np.ndarray, "people items"]:
        """How long everybody takes for each item; log-normal."""
        found: Float[np.ndarray, "people items"] = self._once(f"times/{outcome}", lambda draw: self._times(outcome, draw))
        return found

    def _times(self, outcome: str, draw: np.random.Generator) -> Float[np.ndarray, "people items"]:
        luck = draw.standard_normal((len(self), len(self.behaviour.outcomes[outcome].items)))
        rounded: Float[np.ndarray, "people items"] = np.round(self.pages()[:, None] * np.exp(_TIME * luck), 2)
        return rounded

    def pages(self) -> Float[np.ndarray, " people"]:
        """Everybody's median time per page."""
        seconds = np.where(self.hasty, _HASTY, self.behaviour.effect.crowd.seconds)
        found: Float[np.ndarray, " people"] = seconds * np.exp(_PACE * self.pace)
        return found

    def counted(self, arm: str, rows: Int[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
        """Whether each stays in the study by the rule of its protocol; `arm` is where they are, or any of many."""
        rule, tasks = self.behaviour.study.protocol.exclude, self.behaviour.outcomes.items()
        missed = self.inattentive[rows] * (self.checks[rows] > 0).sum(axis=1)
        asked = [(name, one) for name, one in tasks if not one.scale and (arm != NONE or not one.needs_map)]
        found: Bool[np.ndarray, " rows"] = (self.leaving[rows] == 1) & (missed <= rule.missed)
        # Who is usually eight times as slow as the rule asks for is never too fast: five deviations lie between.
        close = np.flatnonzero(self.pages()[rows] < 8 * rule.seconds)
        if asked and len(close):
            times = np.concatenate([self.seconds(name)[rows[close]][:, one.counts] for name, one in asked], axis=1)
            found[close] &= np.median(times, axis=1) >= rule.seconds
        return found

    def replies(self, row: int) -> ParticipantAnswers:
        """One person, who answers page by page."""
        return ParticipantAnswers(self, row)

    def answers(self, outcome: str, arm: str) -> AnswerBatch:
        """What everybody answers, or would in that arm; reckoned once."""
        found: AnswerBatch = self._once(f"given/{outcome}/{arm}", lambda _: self.given(outcome, arm, np.arange(len(self))))
        return found

    def _normal(self, name: str) -> Float[np.ndarray, " people"]:
        found: Float[np.ndarray, " people"] = self._once(name, lambda draw: draw.standard_normal(len(self)))
        return found

    def _once(self, name: str, make: Callable[[np.random.Generator], Any]) -> Any:
        """Drawn when it is first asked for, by name: what else is asked for changes nothing."""
        if name not in self._drawn:
            self._drawn[name] = make(Rng(self.seed, ()).shared(f"people/{name}"))
        return self._drawn[name]


@dataclass(frozen=True, eq=False)
class ParticipantAnswers:
    """What one simulated person answers, page by page; the same page gets the same answer again."""

    people: SimulatedParticipants
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
            return float(self.people.seconds(page.task)[self.row, self._place(page.task, page.item.id)])
        if page.kind == "scale":
            return round(float(self.people.seconds(page.scale)[self.row].sum()), 2)
        return round(float(self.people.pages()[self.row]), 2)

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


def simulate_answers(study: Study, participants: int, effect: Effect, *, seed: int) -> StudyData:
    """The tables of a study that nobody took part in: as many simulated people, put into groups in balanced blocks."""
    people = Behaviour.of(study, effect).people(participants, seed)
    return collect_data(study, _visits(study, people, seed), simulated=True)


def assign_groups(groups: int, people: int, draw: np.random.Generator) -> Int[np.ndarray, " people"]:
    """A group for everybody: every group once before any comes again."""
    turns = [draw.permutation(groups) for _ in range(-(-people // groups))]
    return np.concatenate([np.empty(0, dtype=np.int64), *turns])[:people]


def _visits(study: Study, people: SimulatedParticipants, seed: int) -> Iterator[Participation]:
    groups = assign_groups(len(study.protocol.groups), len(people), Rng(seed, ()).shared("groups"))
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
        yield Participation(
            f"simulated{number:05d}", number, group, study.protocol.languages[0], True,
            "finished" if done else "started", started.isoformat(), now.isoformat() if done else "", replies,
        )  # fmt: skip


def _shift(one: AnswerModel, d: float, spread: SkillSpread, conditions: int) -> float:
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


def _spread_of_means(one: AnswerModel, shift: float, spread: SkillSpread, conditions: int) -> tuple[float, float]:
    """Mean and variance over people of the mean score, integrated over skill and luck."""
    skills, weights = _normal(21)
    lucks, chances = _normal(7 if one.form.feels_ease else 1)
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
