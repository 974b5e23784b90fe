"""What every form of a trial has to offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from snellen.study.tasks.answer import Answer, AnswerBatch, AnswerError, AnswerNoise, Reason, SentAnswer, Truth

Score = Callable[[Float[np.ndarray, "*truths"], AnswerBatch], Float[np.ndarray, "people items"]]
"""The scores of answers, from the truth of every item and the answers."""

Moments = tuple[Float[np.ndarray, "ways items"], Float[np.ndarray, "ways items"]]
"""Mean and mean square of a score."""


@dataclass(frozen=True)
class Assurance:
    """A number that says how sure a participant is of an answer: a certainty in per cent, or a stake in points."""

    kind: Literal["certainty", "stake"]
    low: int
    high: int
    """The least and the greatest number."""

    @property
    def bins(self) -> list[tuple[int, int]]:
        """Lowest and highest number of five bins; the ends of a stake, nothing and everything, are bins of their own.

        >>> Assurance("certainty", 50, 100).bins
        [(50, 59), (60, 69), (70, 79), (80, 89), (90, 100)]
        >>> Assurance("stake", 0, 10).bins
        [(0, 0), (1, 3), (4, 6), (7, 9), (10, 10)]
        """
        low, high = self.low, self.high
        if self.kind == "stake":
            inner = [low + 1 + round(third * (high - low - 1) / 3) for third in range(3)]
            starts = [low, *inner, high]
        else:
            starts = [low + round(fifth * (high - low) / 5) for fifth in range(5)]
        return list(zip(starts, [*(start - 1 for start in starts[1:]), high], strict=True))


class Form(ABC):
    """How participants enter an answer, and how simulated participants choose one."""

    html: ClassVar[str]
    """The questions of a trial as a Jinja template. Its input fields are called value, beside and chosen, as in `Answer`.

    It may use: `t` (texts), `parts` (macros of parts.html), `form`, `task` (name), `about` (name of the class), `further`
    (pictures to choose from); and of an answer that was refused, `entered`, `chosen`, `refused` and `focus`.
    """
    feedback_html: ClassVar[str]
    """What follows a practice answer, as a Jinja template; it may also use `answer`, `score`, `truth` and `judged`."""
    texts: ClassVar[tuple[str, ...]] = ()
    """Names of the texts that a task with this form needs besides title, introduction, maps and question."""
    feels_ease: ClassVar[bool] = False
    """Whether a second question asks for something that follows how easy the item is at that moment."""

    @property
    def assurance(self) -> Assurance | None:
        """What a second number says about a decision that is right or wrong; its calibration is analysed."""
        return None

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """What the exported columns value, beside and chosen mean; those that stay empty are left out."""

    @abstractmethod
    def read(self, sent: SentAnswer) -> Answer:
        """The answer that a browser sent; raises `AnswerError` where the form does not offer it."""

    @abstractmethod
    def truth_problems(self, truth: Truth, choices: int) -> Iterator[str]:
        """Why an item with `choices` pictures to choose from cannot have this truth, a sentence each."""

    @abstractmethod
    def noise(self, people: int, items: int, draw: np.random.Generator) -> AnswerNoise:
        """The random numbers of `people` simulated participants for the answers to `items` items."""

    @abstractmethod
    def simulate(
        self, ease: Float[np.ndarray, "people items"], truth: Float[np.ndarray, "*truths"], noise: AnswerNoise, bets: float
    ) -> AnswerBatch:
        """Answers of simulated participants who look.

        Args:
            ease: Skill minus difficulty, in standard deviations of skill.
            truth: The truth of every item.
            noise: From `noise`.
            bets: How far the second answer follows the probability of being right, from 0 (not) to 1.
        """

    @abstractmethod
    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        """Answers of simulated participants who do not look: any, each with the same probability."""

    @abstractmethod
    def moments(
        self, score: Score, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float
    ) -> Moments:
        """Mean and mean square of the score of `simulate` at this ease, computed without random numbers.

        Args:
            score: The score of answers.
            ease: A row per case, such as a level of skill; a column per item.
            truth: The truth of every item.
            bets: As in `simulate`.
        """


def read_number(text: str | None, low: int, high: int, missing: Reason = "missing") -> int | Reason:
    """A whole number from `low` to `high`, or why the text is refused; `missing` is the reason of an empty field."""
    if text in (None, ""):
        return missing
    assert text is not None
    # Longer numbers are never an answer, and int() is slow for a million digits.
    if len(text) > 4 or not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        return "impossible"
    return int(text)


def answer_of(value: int | Reason, beside: int | Reason | None = None) -> Answer:
    """An answer from the results of `read_number`; raises `AnswerError` with the reason of every refused field."""
    if isinstance(value, str) or isinstance(beside, str):
        fields = {"value": value, "beside": beside}
        raise AnswerError({name: reason for name, reason in fields.items() if isinstance(reason, str)})
    return Answer(value, beside)


def range_problems(truth: Truth, highest: int) -> Iterator[str]:
    """Why a truth is no number from 0 to `highest`."""
    if truth is None or isinstance(truth, tuple):
        yield f"cannot have the truth {truth}"
    elif not 0 <= truth <= highest:
        yield f"has the truth {truth}, which is out of range"


def moments_of_numbers(
    score: Score, chance: Float[np.ndarray, "ways items answers"], truth: Float[np.ndarray, "*truths"], low: int, high: int
) -> Moments:
    """Mean and mean square of the score of a whole number from `low` to `high`, each with its probability `chance`."""
    # A row per possible answer, a column per item.
    every = np.repeat(np.arange(low, high + 1)[:, None], len(truth), axis=1)
    scores = np.ascontiguousarray(score(truth, AnswerBatch(every)).T)
    return (chance * scores).sum(axis=-1), (chance * scores**2).sum(axis=-1)
