"""Answers of participants: one as it is stored, and many at once as arrays for simulations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

Truth = float | tuple[bool, ...] | None
"""Per cent; 1 for 'the model is wrong' and 0 for 'right'; of every further image, whether the model gets it right; or None
where nothing is right or wrong."""

Reason = Literal["missing", "beside-missing", "impossible"]
"""Name of the sentence (`refused.*` in the texts) that tells a participant why a field was refused."""


@dataclass(frozen=True)
class Answer:
    """One answer to a trial. The names of its fields are those of the form, of stored events and of exported columns."""

    value: int | None = None
    """The main answer, a whole number."""
    beside: int | None = None
    """The answer to the second question, where there is one."""
    chosen: tuple[int, ...] = ()
    """Positions (from 0) of the chosen images."""

    def as_values(self) -> dict[str, Any]:
        """As stored in an event."""
        return {"value": self.value, "beside": self.beside, "chosen": list(self.chosen)}

    @staticmethod
    def of(values: Mapping[str, Any]) -> Answer:
        """From an event."""
        return Answer(values.get("value"), values.get("beside"), tuple(values.get("chosen") or ()))


@dataclass(frozen=True)
class SentAnswer:
    """The fields of a trial's form as a browser sent them; None or "" where a field was left empty."""

    value: str | None = None
    beside: str | None = None
    chosen: tuple[str, ...] = ()


class AnswerError(ValueError):
    """A sent answer that is refused; `refused` holds the reason by field name."""

    def __init__(self, refused: Mapping[str, Reason]) -> None:
        super().__init__(", ".join(f"{field}: {reason}" for field, reason in refused.items()))
        self.refused = dict(refused)


@dataclass(frozen=True, eq=False)
class AnswerBatch:
    """Answers of several participants to several items; the arrays correspond to the fields of `Answer`."""

    value: Int[np.ndarray, "people items"]
    """The main answer."""
    beside: Int[np.ndarray, "people items"] | None = None
    """The answer to the second question; None where there is none."""
    chosen: Bool[np.ndarray, "people items further"] | None = None
    """Of every further image, whether it was chosen."""


@dataclass(frozen=True, eq=False)
class AnswerNoise:
    """Random numbers behind the simulated answers of several participants to all items of a task or questionnaire."""

    main: Float[np.ndarray, "people items *further"]
    """Uniform or normal, as the form needs them."""
    beside: Float[np.ndarray, "people items"] | None = None
    """Standard normal, for the second question."""
    moment: Float[np.ndarray, "people items"] | None = None
    """Standard normal: how much easier the item is for this participant this time, which the second answer reflects."""

    def of(self, rows: Int[np.ndarray, " rows"] | Bool[np.ndarray, " people"]) -> AnswerNoise:
        """The noise of some participants."""
        beside, moment = (None if values is None else values[rows] for values in (self.beside, self.moment))
        return AnswerNoise(self.main[rows], beside, moment)
