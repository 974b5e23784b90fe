"""A decision whether the model is right, and a number that says how sure the participant is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from snellen.study.tasks.answer import Answer, AnswerBatch, AnswerNoise, SentAnswer, Truth
from snellen.study.tasks.forms.form import Assurance, Form, Moments, Score, answer_of, range_problems, read_number
from snellen.study.tasks.forms.simulation import chance_right, guessed, rounded, rounded_chances

_NOISE = 0.15
"""Standard deviation of the second answer, as a share of its range."""


@dataclass(frozen=True)
class Decision(Form):
    """Is the model right (0) or wrong (1)? Then a whole number from `low` to `high`: a certainty or a stake.

    Simulated participants are right with probability ½ + ½·logistic(ease). The second answer is the middle of its
    range, moved towards 2·probability − 1 of it, plus noise.
    """

    low: int = 50
    high: int = 100
    kind: Literal["certainty", "stake"] = "certainty"
    """What the second number is: a certainty in per cent, or a stake in points."""

    feels_ease = True
    texts = ("beside", "unit", "low", "high")
    html = """
<fieldset class="question" role="radiogroup" aria-required="true"{{ parts.tied(refused, "value") }}>
<legend>{{ t("tasks.*.question", task) }}</legend>
{{ parts.wrong(t, refused, "value") }}
<div class="pair">
{% for value, name in (("0", t("trial.right")), ("1", t("trial.wrong"))) %}
<label><input type="radio" name="value" value="{{ value }}" required{{ " checked" if entered.get("value") == value }}{{ " autofocus" if focus == "value" and loop.first }}> {{ name }}</label>
{% endfor %}
</div>
</fieldset>
{{ parts.number(t, "beside", t("tasks.*.beside", task), task, (form.low, form.high), entered, refused, focus) }}
"""  # noqa: E501
    feedback_html = """
<p class="lead">{{ t("feedback.program_wrong") if truth else t("feedback.program_right") }}</p>
<p>{{ t("feedback.hit") if answer.value == truth else t("feedback.missed") }}</p>
"""

    @property
    def assurance(self) -> Assurance:
        return Assurance(self.kind, self.low, self.high)

    @property
    def columns(self) -> Mapping[str, str]:
        unit = "in points" if self.kind == "stake" else "in per cent"
        beside = f"{self.kind} {unit}, {self.low} to {self.high}"
        return {"value": "1 for 'the model is wrong', 0 for 'right'", "beside": beside}

    def read(self, sent: SentAnswer) -> Answer:
        return answer_of(read_number(sent.value, 0, 1), read_number(sent.beside, self.low, self.high, "beside-missing"))

    def truth_problems(self, truth: Truth, choices: int) -> Iterator[str]:
        return range_problems(truth, 1)

    def noise(self, people: int, items: int, draw: np.random.Generator) -> AnswerNoise:
        shape = (people, items)
        return AnswerNoise(draw.random(shape), draw.standard_normal(shape), draw.standard_normal(shape))

    def simulate(
        self, ease: Float[np.ndarray, "people items"], truth: Float[np.ndarray, "*truths"], noise: AnswerNoise, bets: float
    ) -> AnswerBatch:
        assert noise.beside is not None
        right = chance_right(ease)
        value = np.where(noise.main < right, truth, 1 - truth).astype(np.int64)
        sure = _felt_certainty(right, bets) + _NOISE * noise.beside
        return AnswerBatch(value, rounded(self.low + (self.high - self.low) * sure, self.low, self.high))

    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        assert noise.beside is not None
        return AnswerBatch(guessed(noise.main, 0, 1), guessed(ndtr(noise.beside), self.low, self.high))

    def moments(
        self, score: Score, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float
    ) -> Moments:
        """Of a score that depends on the decision alone and is 1 for a right one, 0 for a wrong one."""
        right = chance_right(ease)
        return right, right

    def moments_of_stakes(self, ease: Float[np.ndarray, "ways items"], bets: float) -> Moments:
        """Of a score that is the second number after a right decision, and minus that number after a wrong one."""
        right = chance_right(ease)
        middle = self.low + (self.high - self.low) * _felt_certainty(right, bets)
        deviation = np.full(ease.shape, (self.high - self.low) * _NOISE)
        chance = rounded_chances(middle, deviation, self.low, self.high)
        stake = np.arange(self.low, self.high + 1)
        return (2 * right - 1) * (chance * stake).sum(axis=-1), (chance * stake**2).sum(axis=-1)


def _felt_certainty(right: Float[np.ndarray, "ways items"], bets: float) -> Float[np.ndarray, "ways items"]:
    """How sure participants feel, from 0 to 1: what the probability of being right deserves, or the middle."""
    return bets * (2 * right - 1) + (1 - bets) * 0.5
