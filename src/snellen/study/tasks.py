"""The six tasks: what a participant answers, which answers are possible, and how an answer is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from snellen.study.protocol import TaskName

SHOWN = 3
"""Images with maps in a task about a class."""

FURTHER = 6
"""Further images, without maps, of which those are to be chosen that the model gets right."""

STAKE = 10
"""The most points that can be staked on one answer."""

Truth = float | tuple[bool, ...] | None
"""Per cent; 1 for 'the model is wrong' and 0 for 'right'; or, of every further image, whether the model gets it right."""


@dataclass(frozen=True)
class Task:
    """What a task asks for: its main answer, what is asked beside it, and which scores are good."""

    name: TaskName
    answer: Literal["percent", "right-or-wrong", "choice", "rating"]
    beside: Literal["certainty", "stake"] | None
    score: str
    """What the score of one answer is, in words."""
    higher_is_better: bool
    about_class: bool = False
    needs_map: bool = False

    @property
    def images(self) -> int:
        """How many pictures with maps an item shows."""
        return SHOWN if self.about_class else 1


TASKS: dict[TaskName, Task] = {
    one.name: one
    for one in (
        Task("confidence", "percent", None, "distance from the model's confidence, in points of 100", False),
        Task("error-detection", "right-or-wrong", "certainty", "1 for a right answer, 0 for a wrong one", True),
        Task("class-accuracy", "percent", None, "distance from the model's accuracy, in points of 100", False, True),
        Task("forward-selection", "choice", None, "images out of six that were judged wrongly", False, True),
        Task("betting", "right-or-wrong", "stake", "points won, or lost with a minus", True),
        Task("sharpness", "rating", None, "rating from 1, blurred, to 7, sharp", True, needs_map=True),
    )
}

RANGES: dict[str, tuple[int, int]] = {
    "percent": (0, 100), "right-or-wrong": (0, 1), "rating": (1, 7), "certainty": (50, 100), "stake": (0, STAKE)
}  # fmt: skip
"""The whole numbers that an answer can be; a certainty of 50 is a guess."""


@dataclass(frozen=True)
class Answer:
    """One answer: a number with what was asked beside it, or the places (from 0) of the chosen images."""

    value: int | None = None
    beside: int | None = None
    chosen: tuple[int, ...] = ()

    def as_values(self) -> dict[str, Any]:
        """As it stands in an event."""
        return {"value": self.value, "beside": self.beside, "chosen": list(self.chosen)}

    @staticmethod
    def of(values: Mapping[str, Any]) -> Answer:
        """From an event."""
        return Answer(values.get("value"), values.get("beside"), tuple(values.get("chosen") or ()))


class AnswerError(ValueError):
    """An answer that cannot be taken; `reason` is the name of the sentence that tells why."""

    def __init__(self, reason: Literal["missing", "beside-missing", "impossible"]) -> None:
        super().__init__(reason)
        self.reason = reason


def read_answer(task: Task, value: str | None, beside: str | None, chosen: Sequence[str]) -> Answer:
    """An answer from the fields of a form; anything that the task does not offer is refused."""
    if task.answer == "choice":
        places = tuple(sorted({_whole(one, (0, FURTHER - 1)) for one in chosen}))
        return Answer(chosen=places)
    if value in (None, ""):
        raise AnswerError("missing")
    main = _whole(str(value), RANGES[task.answer])
    if task.beside is None:
        return Answer(main)
    if beside in (None, ""):
        raise AnswerError("beside-missing")
    return Answer(main, _whole(str(beside), RANGES[task.beside]))


def _whole(text: str, ends: tuple[int, int]) -> int:
    # More digits than this are no answer, and int() would take its time over a million of them.
    if len(text) > 4 or not text.isascii() or not text.isdigit() or not ends[0] <= int(text) <= ends[1]:
        raise AnswerError("impossible")
    return int(text)


def score(task: Task, truth: Truth, answer: Answer) -> float:
    """The score of an answer.

    >>> score(TASKS["confidence"], 80.0, Answer(65)), score(TASKS["betting"], 1.0, Answer(0, 7))
    (15.0, -7.0)
    """
    if task.answer == "choice":
        assert isinstance(truth, tuple)
        return float(sum((place in answer.chosen) != right for place, right in enumerate(truth)))
    assert answer.value is not None
    if task.answer == "rating":
        return float(answer.value)
    assert isinstance(truth, float | int)
    if task.answer == "percent":
        return abs(answer.value - float(truth))
    right = answer.value == truth
    if task.beside == "stake":
        return float(answer.beside or 0) * (1 if right else -1)
    return float(right)
