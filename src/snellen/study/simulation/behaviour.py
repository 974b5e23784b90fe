"""Simulated participants, drawn as an `Effect` assumes. They answer the pages of a study, in memory or over HTTP.

Every participant has one skill for all tasks, an attitude for every questionnaire and a taste for sharpness, each standard
normal; attitudes correlate at about ½. An arm shifts them. An assumed d is the Cohen's d of *participants' mean scores* that
attentive participants would have on this study's items, against an arm without shift. Guessing, ceilings and the number of
items all shrink a difference of skills, so the shift of the skill that gives this d is solved for, outcome by outcome.
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
from snellen.study.simulation.answer_model import AnswerModel, answer_models
from snellen.study.simulation.effect import Effect, SkillSpread
from snellen.study.tasks import Answer, AnswerBatch, AnswerNoise
from snellen.types import Rng

_LARGEST_SHIFT = 8.0
"""Of skill, in standard deviations."""
_PACE_DEVIATION, _TIME_DEVIATION = 0.3, 0.4
"""Standard deviations of the logarithm of times, between participants and between pages of one participant."""
_HASTY_SECONDS = 0.4
"""Median time per page of hasty participants."""
_START = datetime(2000, 1, 1, tzinfo=UTC)
"""When simulated studies in memory take place: long before any real study."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Behaviour:
    """How simulated participants behave in one study, with the shifts of skill that give the assumed differences."""

    study: Study
    effect: Effect
    outcomes: Mapping[str, AnswerModel]
    shifts: Mapping[tuple[str, str], float]
    """By outcome and arm, in standard deviations of skill."""

    @staticmethod
    def of(study: Study, effect: Effect) -> Behaviour:
        """The behaviour in a study under an effect; solves for all shifts."""
        models = answer_models(study)
        conditions = len(study.protocol.conditions) if study.protocol.design == "within" else 1
        shifts = {
            (name, arm): _shift(model, effect.d(name, arm, ability=model.ability), effect.spread, conditions)
            for name, model in models.items()
            for arm in study.protocol.arms
            if arm != NONE or not model.needs_map
        }
        return Behaviour(study=study, effect=effect, outcomes=models, shifts=shifts)

    def participants(self, count: int, seed: int) -> SimulatedParticipants:
        """Draws participants; the same seed draws the same ones."""
        mix, draw = self.effect.mix, Rng(seed, ()).shared("people")
        kind = draw.random(count)
        return SimulatedParticipants(
            behaviour=self,
            seed=seed,
            inattentive=kind < mix.inattentive,
            hasty=(kind >= mix.inattentive) & (kind < mix.inattentive + mix.hasty),
            leaving=np.where(draw.random(count) < mix.leaving, draw.random(count), 1.0),
            check_errors=draw.integers(CHOICES, size=(count, self.study.protocol.attention)),
            pace=draw.standard_normal(count),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedParticipants:
    """Simulated participants, a row each. Random numbers are drawn when they are first needed."""

    behaviour: Behaviour
    seed: int
    inattentive: Bool[np.ndarray, " people"]
    """Who answers at random, attention checks included."""
    hasty: Bool[np.ndarray, " people"]
    """Who answers at random and fast, but answers attention checks rightly."""
    leaving: Float[np.ndarray, " people"]
    """The share of pages after which a participant leaves; 1 to stay."""
    check_errors: Int[np.ndarray, "people checks"]
    """How far the answer of an inattentive participant is from that of each attention check; 0 is right by chance."""
    pace: Float[np.ndarray, " people"]
    """Standard normal; higher is slower."""
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.pace)

    def skill(self, outcome: str, arm: str) -> Float[np.ndarray, " people"]:
        """The skill or attitude in an outcome and an arm: standard normal, and the same in all tasks but for the arm."""
        model, share = self.behaviour.outcomes[outcome], self.behaviour.effect.spread.arms
        names = ["skill"] if model.ability else [outcome, "attitude"] if model.scale else [outcome]
        general, of_arm = (sum(self._normal(f"{name}{suffix}") for name in names) for suffix in ("", f"/{arm}"))
        return np.asarray((np.sqrt(1 - share) * general + np.sqrt(share) * of_arm) / np.sqrt(len(names)))

    def noise(self, outcome: str, arm: str) -> AnswerNoise:
        """The random numbers behind all answers. Within subjects, a questionnaire has other ones in every arm."""
        model = self.behaviour.outcomes[outcome]
        repeated = model.scale is not None and self.behaviour.study.protocol.design == "within"
        name = f"answers/{outcome}/{arm}" if repeated else f"answers/{outcome}"
        noise: AnswerNoise = self._cached(name, lambda draw: model.noise(len(self), draw))
        return noise

    def simulate(self, outcome: str, arm: str, rows: Int[np.ndarray, " rows"]) -> AnswerBatch:
        """The answers of some participants to all items of an outcome in an arm; `rows` are their numbers."""
        effect, model, noise = self.behaviour.effect, self.behaviour.outcomes[outcome], self.noise(outcome, arm).of(rows)
        spread = effect.spread
        item_effects = np.array([effect.link.get((arm, item), 0.0) for item in model.items])
        skill = spread.people * self.skill(outcome, arm)[rows] + self.behaviour.shifts[outcome, arm]
        ease = skill[:, None] + (item_effects - spread.items * model.difficulty)
        if noise.moment is not None:
            ease = ease + spread.moments * noise.moment
        answers = model.simulate(ease, noise, spread.bets)
        careless = (self.inattentive | self.hasty)[rows]
        random_answers = model.careless(noise.of(careless))
        for own, random in (
            (answers.value, random_answers.value),
            (answers.beside, random_answers.beside),
            (answers.chosen, random_answers.chosen),
        ):
            if own is not None:
                own[careless] = random
        return answers

    def seconds(self, outcome: str) -> Float[np.ndarray, "people items"]:
        """Every participant's time for each item; log-normal."""
        seconds: Float[np.ndarray, "people items"] = self._cached(
            f"times/{outcome}", lambda draw: self._draw_seconds(outcome, draw)
        )
        return seconds

    def _draw_seconds(self, outcome: str, draw: np.random.Generator) -> Float[np.ndarray, "people items"]:
        deviations = draw.standard_normal((len(self), len(self.behaviour.outcomes[outcome].items)))
        return np.asarray(np.round(self.page_seconds()[:, None] * np.exp(_TIME_DEVIATION * deviations), 2))

    def page_seconds(self) -> Float[np.ndarray, " people"]:
        """Every participant's median time per page."""
        median = np.where(self.hasty, _HASTY_SECONDS, self.behaviour.effect.mix.seconds)
        return np.asarray(median * np.exp(_PACE_DEVIATION * self.pace))

    def counted(self, arm: str, rows: Int[np.ndarray, " rows"]) -> Bool[np.ndarray, " rows"]:
        """Which of some participants are not excluded by the protocol; `arm` is theirs, or any where they see several."""
        rule, models = self.behaviour.study.protocol.exclude, self.behaviour.outcomes.items()
        missed = self.inattentive[rows] * (self.check_errors[rows] > 0).sum(axis=1)
        tasks = [(name, model) for name, model in models if not model.scale and (arm != NONE or not model.needs_map)]
        counted = np.asarray((self.leaving[rows] == 1) & (missed <= rule.missed))
        # Times are drawn only for participants whose median is near the limit: eight times is five deviations away.
        fast = np.flatnonzero(self.page_seconds()[rows] < 8 * rule.seconds)
        if tasks and len(fast):
            times = np.concatenate([self.seconds(name)[rows[fast]][:, model.counts] for name, model in tasks], axis=1)
            counted[fast] &= np.median(times, axis=1) >= rule.seconds
        return counted

    def participant(self, row: int) -> ParticipantAnswers:
        """One participant, who answers page by page."""
        return ParticipantAnswers(self, row)

    def answers(self, outcome: str, arm: str) -> AnswerBatch:
        """The answers of all participants, whether or not they are in that arm."""
        answers: AnswerBatch = self._cached(
            f"simulated/{outcome}/{arm}", lambda _: self.simulate(outcome, arm, np.arange(len(self)))
        )
        return answers

    def _normal(self, name: str) -> Float[np.ndarray, " people"]:
        values: Float[np.ndarray, " people"] = self._cached(name, lambda draw: draw.standard_normal(len(self)))
        return values

    def _cached(self, name: str, make: Callable[[np.random.Generator], Any]) -> Any:
        """A value made when it is first needed, from random numbers of its own: the order of calls changes nothing."""
        if name not in self._cache:
            self._cache[name] = make(Rng(self.seed, ()).shared(f"people/{name}"))
        return self._cache[name]


@dataclass(frozen=True, eq=False)
class ParticipantAnswers:
    """The answers of one simulated participant, page by page; the same page always has the same answer."""

    participants: SimulatedParticipants
    row: int

    def trial(self, task: str, item: str, arm: str) -> Answer:
        """The answer to an item in an arm."""
        answers, cell = self.participants.answers(task, arm), (self.row, self._column(task, item))
        if answers.chosen is not None:
            return Answer(chosen=tuple(int(image) for image in np.flatnonzero(answers.chosen[cell])))
        return Answer(int(answers.value[cell]), None if answers.beside is None else int(answers.beside[cell]))

    def scale(self, name: str, arm: str) -> list[int]:
        """The answers to the statements of a questionnaire."""
        scale = self.participants.behaviour.study.scales[name]
        scores = self.participants.answers(name, arm).value[self.row]
        # Reversing a score gives the answer, as reversing the answer gives the score.
        return [scale.score(item, int(score)) for item, score in enumerate(scores, 1)]

    def check(self, number: int, expected: int) -> int:
        """The answer to an attention check that asks for `expected`; `number` counts the checks from 0."""
        inattentive = self.participants.inattentive[self.row]
        error = int(self.participants.check_errors[self.row, number]) if inattentive else 0
        return (expected - 1 + error) % CHOICES + 1

    def seconds(self, page: Page) -> float:
        """How long the participant takes for a page."""
        if page.kind == "trial" and page.item is not None:
            return float(self.participants.seconds(page.task)[self.row, self._column(page.task, page.item.id)])
        if page.kind == "scale":
            return round(float(self.participants.seconds(page.scale)[self.row].sum()), 2)
        return round(float(self.participants.page_seconds()[self.row]), 2)

    def leaves(self, number: int, pages: int) -> bool:
        """Whether the participant leaves before page `number`, from 0, of so many pages."""
        share = float(self.participants.leaving[self.row])
        return share < 1 and number >= int(share * pages)

    def content(self, page: Page, checks: int) -> dict[str, Any]:
        """The content of the answer to a page; `checks` is the number of attention checks before it."""
        if page.kind == "trial" and page.item is not None:
            return self.trial(page.task, page.item.id, page.condition.arm).as_values()
        if page.kind == "scale":
            return {"answers": self.scale(page.scale, page.condition.arm)}
        return {"value": self.check(checks, page.requested)} if page.kind == "attention" else {}

    def _column(self, outcome: str, item: str) -> int:
        return self.participants.behaviour.outcomes[outcome].items.index(item)


def simulate_answers(study: Study, participants: int, effect: Effect, *, seed: int) -> StudyData:
    """The tables of a study with simulated participants, in memory; groups are assigned in balanced blocks.

    Args:
        study: The study.
        participants: How many begin.
        effect: What is assumed of them.
        seed: Another seed draws other participants.
    """
    simulated = Behaviour.of(study, effect).participants(participants, seed)
    return collect_data(study, _participations(study, simulated, seed), simulated=True)


def assign_groups(groups: int, participants: int, draw: np.random.Generator) -> Int[np.ndarray, " people"]:
    """A group for every participant: every group is assigned once, in random order, before any is assigned again."""
    blocks = [draw.permutation(groups) for _ in range(-(-participants // groups))]
    return np.concatenate([np.empty(0, dtype=np.int64), *blocks])[:participants]


def _participations(study: Study, participants: SimulatedParticipants, seed: int) -> Iterator[Participation]:
    groups = assign_groups(len(study.protocol.groups), len(participants), Rng(seed, ()).shared("groups"))
    for number, group in enumerate(groups.tolist()):
        participant, pages = participants.participant(number), study.pages(group, number)
        started = now = _START + timedelta(minutes=number)
        replies: dict[str, Reply] = {}
        checks = 0
        for position, page in enumerate(pages):
            if participant.leaves(position, len(pages)):
                break
            seconds = participant.seconds(page)
            now += timedelta(seconds=seconds)
            replies[page.id] = Reply(participant.content(page, checks), seconds, now.isoformat())
            checks += page.kind == "attention"
        done = len(replies) == len(pages)
        yield Participation(
            participant=f"simulated{number:05d}", number=number, group=group, simulated=True,
            language=study.protocol.languages[0],
            state="finished" if done else "started", started=started.isoformat(), finished=now.isoformat() if done else "",
            replies=replies,
        )  # fmt: skip


def _shift(model: AnswerModel, d: float, spread: SkillSpread, conditions: int) -> float:
    """The shift of skill that makes mean scores differ by `d` from those without shift."""
    if d == 0:
        return 0.0
    mean_without, variance_without = _mean_score_moments(model, 0.0, spread, conditions)
    sign = 1 if model.higher_is_better else -1

    def d_of(shift: float) -> float:
        mean, variance = _mean_score_moments(model, shift, spread, conditions)
        return float(sign * (mean - mean_without) / np.sqrt((variance + variance_without) / 2))

    end = _LARGEST_SHIFT if d > 0 else -_LARGEST_SHIFT
    if abs(d_of(end)) < abs(d):
        raise SnellenError(
            f"a difference of d = {d:g} in {model.name} is impossible: with these items the most is {d_of(end):.2f}; "
            "assume less, or ask for more items"
        )
    return float(brentq(lambda shift: d_of(shift) - d, 0.0, end, xtol=1e-4))


def _mean_score_moments(model: AnswerModel, shift: float, spread: SkillSpread, conditions: int) -> tuple[float, float]:
    """Mean and variance over participants of the mean score, integrated over skill and noise."""
    skills, weights = _normal_quadrature(21)
    moments, moment_weights = _normal_quadrature(7 if model.form.feels_ease else 1)
    skill = (shift + spread.people * skills)[:, None] + spread.moments * moments
    ease = skill.reshape(-1, 1) - spread.items * model.difficulty
    mean, square = (
        np.einsum("psi,s->pi", part.reshape(len(skills), len(moments), -1), moment_weights)[:, model.counts]
        for part in model.moments(ease, spread.bets)
    )
    items = mean.shape[1]
    per_condition = items / conditions
    within = (square - mean**2).mean(axis=1) / per_condition
    if conditions > 1:  # each participant sees other items in this arm, whose differences add to the variance
        within = within + mean.var(axis=1, ddof=1) / per_condition * (1 - per_condition / items)
    expected = mean.mean(axis=1)
    centre = float(weights @ expected)
    return centre, float(weights @ ((expected - centre) ** 2 + within))


def _normal_quadrature(points: int) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Points and weights that integrate over the standard normal distribution."""
    positions, weights = np.polynomial.hermite_e.hermegauss(points)
    return positions, weights / weights.sum()
