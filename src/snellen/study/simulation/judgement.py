"""What a study measures of people, and the formulas by which simulated people answer: ease in, answer out.

*Ease* is skill minus the difficulty of the item, in standard deviations of skill. Of every formula there are two
readings: `given` turns random numbers into answers, and `moments` tells mean and mean square of the score without any.
They are tested against each other.

- right or wrong: right with probability ½ + ½·logistic(ease); half of all are guesses that come right
- stake and certainty: around a middle, drawn towards 2·probability − 1, with noise
- per cent: the truth plus normal noise with a deviation of 20·exp(−0.3·ease) points, kept between 0 and 100
- forward selection: each of the six images judged rightly with the probability above
- ratings and statements: a normal number around the middle, shifted by ease, rounded to what can be chosen
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, ndtr

from snellen.study.folder import Study
from snellen.study.scales import Scale
from snellen.study.tasks import FURTHER, RANGES, TASKS
from snellen.types import Rng

_POINTS_OFF = 20.0
"""Deviation of estimates in per cent at ease 0."""
_SHRINKS = 0.3
"""How fast that falls with ease."""
_BESIDE_NOISE = 0.15
"""Deviation of stakes and certainties, as a share of their range."""
_RATING_WIDTH, _RATING_NOISE = 0.15, 0.2
"""What one deviation of ease and of noise moves a rating, as shares of its range: Cronbach's alpha of eight is about 0.8."""


@dataclass(frozen=True, eq=False)
class SimulatedAnswers:
    """Answers of some people to all items of an outcome, as in `tasks.Answer`; of ratings, the scores. A row per person."""

    value: Int[np.ndarray, "people items"]
    beside: Int[np.ndarray, "people items"] | None = None
    chosen: Bool[np.ndarray, "people items further"] | None = None


@dataclass(frozen=True, eq=False)
class AnswerNoise:
    """The luck of some people with all items of an outcome."""

    main: Float[np.ndarray, "people items *further"]
    """Uniform for right-or-wrong answers, normal otherwise."""
    beside: Float[np.ndarray, "people items"] | None
    """Normal, where something is asked beside the answer."""
    moment: Float[np.ndarray, "people items"] | None
    """Normal; what makes an item easier or harder this time, where one can feel that and bet on it."""

    def of(self, rows: Int[np.ndarray, " rows"] | Bool[np.ndarray, " people"]) -> AnswerNoise:
        """That of some of them."""
        beside, moment = (None if one is None else one[rows] for one in (self.beside, self.moment))
        return AnswerNoise(self.main[rows], beside, moment)


@dataclass(frozen=True, eq=False)
class AnswerModel:
    """A task or a questionnaire: its items, what is true of them, and how hard they are."""

    name: str
    answer: Literal["percent", "right-or-wrong", "choice", "rating"]
    beside: Literal["certainty", "stake"] | None
    ends: tuple[int, int]
    higher_is_better: bool
    ability: bool
    needs_map: bool
    scale: Scale | None
    items: tuple[str, ...]
    counts: Bool[np.ndarray, " items"]
    """Which items are no practice."""
    truth: Float[np.ndarray, "items *further"]
    difficulty: Float[np.ndarray, " items"]
    """Standard normal, and the item's own: the same in every rehearsal."""

    def noise(self, people: int, draw: np.random.Generator) -> AnswerNoise:
        """Luck for so many people."""
        shape = (people, len(self.items))
        if self.answer == "choice":
            return AnswerNoise(draw.random((*shape, FURTHER)), None, None)
        if self.beside is None:
            return AnswerNoise(draw.standard_normal(shape), None, None)
        return AnswerNoise(draw.random(shape), draw.standard_normal(shape), draw.standard_normal(shape))

    def given(self, ease: Float[np.ndarray, "people items"], noise: AnswerNoise, bets: float) -> SimulatedAnswers:
        """Answers of people who look."""
        low, high = self.ends
        right = _right(ease)
        if self.answer == "percent":
            return SimulatedAnswers(_whole(self.truth + _deviation(ease) * noise.main, low, high))
        if self.answer == "rating":
            return SimulatedAnswers(_whole(_middle(ease, low, high) + (high - low) * _RATING_NOISE * noise.main, low, high))
        if self.answer == "choice":
            rightly = noise.main < right[..., None]
            return SimulatedAnswers(np.zeros(ease.shape, dtype=np.int64), chosen=rightly == (self.truth > 0))
        value = np.where(noise.main < right, self.truth, 1 - self.truth).astype(np.int64)
        assert self.beside is not None
        assert noise.beside is not None
        least, most = RANGES[self.beside]
        sure = _felt(right, bets) + _BESIDE_NOISE * noise.beside
        return SimulatedAnswers(value, _whole(least + (most - least) * sure, least, most))

    def careless(self, noise: AnswerNoise) -> SimulatedAnswers:
        """Answers of people who do not look: anything that can be answered; the same all the way down a questionnaire."""
        low, high = self.ends
        if self.answer == "choice":
            return SimulatedAnswers(np.zeros(noise.main.shape[:2], dtype=np.int64), chosen=noise.main < 0.5)
        luck = noise.main if self.answer == "right-or-wrong" else ndtr(noise.main)
        if self.scale:
            luck = np.repeat(luck[:, :1], len(self.items), axis=1)
        value = (low + np.floor(luck * (high - low + 1))).astype(np.int64)
        if self.scale:
            turned = [place - 1 for place in self.scale.reverse]
            value[:, turned] = low + high - value[:, turned]
        if self.beside is None or noise.beside is None:
            return SimulatedAnswers(value)
        least, most = RANGES[self.beside]
        return SimulatedAnswers(value, (least + np.floor(ndtr(noise.beside) * (most - least + 1))).astype(np.int64))

    def score(self, given: SimulatedAnswers) -> Float[np.ndarray, "people items"]:
        """The scores of answers, as `tasks.score` and `Scale.score` give them one by one."""
        if self.answer == "rating":
            return given.value.astype(np.float64)
        if given.chosen is not None:
            wrong: Float[np.ndarray, "people items"] = (given.chosen != (self.truth > 0)).sum(axis=-1).astype(np.float64)
            return wrong
        if self.answer == "percent":
            off: Float[np.ndarray, "people items"] = np.abs(given.value - self.truth)
            return off
        right = given.value == self.truth
        if self.beside == "stake" and given.beside is not None:
            right = np.where(right, given.beside, -given.beside)
        return np.asarray(right, dtype=np.float64)

    def moments(
        self, ease: Float[np.ndarray, "ways items"], bets: float
    ) -> tuple[Float[np.ndarray, "ways items"], Float[np.ndarray, "ways items"]]:
        """Mean and mean square of the score at this ease."""
        low, high = self.ends
        if self.answer == "percent":
            chance = _chances(np.broadcast_to(self.truth, ease.shape), _deviation(ease), low, high)
            off = np.abs(np.arange(low, high + 1) - self.truth[:, None])
            return (chance * off).sum(axis=-1), (chance * off**2).sum(axis=-1)
        if self.answer == "rating":
            chance = _chances(_middle(ease, low, high), np.full(ease.shape, (high - low) * _RATING_NOISE), low, high)
            rating = np.arange(low, high + 1)
            return (chance * rating).sum(axis=-1), (chance * rating**2).sum(axis=-1)
        right = _right(ease)
        if self.answer == "choice":
            wrong = FURTHER * (1 - right)
            return wrong, wrong * right + wrong**2
        if self.beside != "stake":
            return right, right
        low, high = RANGES["stake"]
        middle = low + (high - low) * _felt(right, bets)
        chance = _chances(middle, np.full(ease.shape, (high - low) * _BESIDE_NOISE), low, high)
        stake = np.arange(low, high + 1)
        return (2 * right - 1) * (chance * stake).sum(axis=-1), (chance * stake**2).sum(axis=-1)


def answer_models(study: Study) -> dict[str, AnswerModel]:
    """Everything that the study measures, tasks first, by name."""
    found = {}
    for plan in study.protocol.tasks:
        task = TASKS[plan.task]
        items = [item for item in study.items if item.task == plan.task]
        truth = np.array([0.0 if item.truth is None else item.truth for item in items], dtype=np.float64)
        ends = RANGES.get(task.answer, (0, 1))
        found[str(plan.task)] = AnswerModel(
            plan.task, task.answer, task.beside, ends, task.higher_is_better, task.answer != "rating", task.needs_map, None,
            tuple(item.id for item in items), np.array([not item.practice for item in items]), truth,
            _difficulty(study, [item.id for item in items]),
        )  # fmt: skip
    for name, scale in study.scales.items():
        statements = tuple(f"{name}/{place}" for place in range(1, scale.items + 1))
        found[name] = AnswerModel(
            name, "rating", None, (1, scale.points), True, False, scale.needs_map, scale, statements,
            np.ones(scale.items, dtype=bool), np.zeros(scale.items), _difficulty(study, statements),
        )  # fmt: skip
    return found


def _difficulty(study: Study, names: list[str] | tuple[str, ...]) -> Float[np.ndarray, " items"]:
    rng = Rng(study.protocol.seed, ())
    return np.array([rng.shared(f"difficulty/{name}").standard_normal() for name in names], dtype=np.float64)


def _right(ease: Float[np.ndarray, "ways items"]) -> Float[np.ndarray, "ways items"]:
    found: Float[np.ndarray, "ways items"] = 0.5 + 0.5 * expit(ease)
    return found


def _deviation(ease: Float[np.ndarray, "ways items"]) -> Float[np.ndarray, "ways items"]:
    # Nobody is more than ten times as far off as somebody of ease 0, or ten times as near.
    found: Float[np.ndarray, "ways items"] = _POINTS_OFF * np.exp(np.clip(-_SHRINKS * ease, -np.log(10), np.log(10)))
    return found


def _middle(ease: Float[np.ndarray, "ways items"], low: int, high: int) -> Float[np.ndarray, "ways items"]:
    return (low + high) / 2 + (high - low) * _RATING_WIDTH * ease


def _felt(right: Float[np.ndarray, "ways items"], bets: float) -> Float[np.ndarray, "ways items"]:
    """How sure people feel, from 0 to 1: what the probability of being right deserves, or the middle."""
    return bets * (2 * right - 1) + (1 - bets) * 0.5


def _whole(numbers: Float[np.ndarray, "people items"], low: int, high: int) -> Int[np.ndarray, "people items"]:
    return np.asarray(np.clip(np.rint(numbers), low, high), dtype=np.int64)


def _chances(
    middle: Float[np.ndarray, "ways items"], deviation: Float[np.ndarray, "ways items"], low: int, high: int
) -> Float[np.ndarray, "ways items answers"]:
    """The probability of each whole number when a normal one is rounded and kept within the ends."""
    edges = np.concatenate([[-np.inf], np.arange(low, high) + 0.5, [np.inf]])
    found: Float[np.ndarray, "ways items answers"] = np.diff(
        ndtr((edges - middle[..., None]) / deviation[..., None]), axis=-1
    )
    return found
