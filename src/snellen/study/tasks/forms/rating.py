"""A rating on a scale of whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from snellen.study.tasks.answer import Answer, AnswerBatch, AnswerNoise, SentAnswer, Truth
from snellen.study.tasks.forms.form import Form, Moments, Score, answer_of, moments_of_numbers, read_number
from snellen.study.tasks.forms.simulation import guessed, rounded, rounded_chances

_WIDTH, _NOISE = 0.15, 0.2
"""By how much one standard deviation of ease and of noise moves a rating, as shares of its range. With these numbers
Cronbach's alpha of eight ratings is about 0.8."""


@dataclass(frozen=True)
class Rating(Form):
    """A choice of one number from `low` to `high`; none is right or wrong.

    Simulated participants answer a normal number around the middle, shifted by ease and rounded.
    """

    low: int = 1
    high: int = 7

    texts = ("low", "high")
    html = """
<fieldset class="question" role="radiogroup" aria-required="true"{{ parts.tied(refused, "value", "value-ends") }}>
<legend>{{ t("tasks.*.question", task) }}</legend>
{{ parts.wrong(t, refused, "value") }}
<div class="row">
{% for value in range(form.low, form.high + 1) %}
<label><input type="radio" name="value" value="{{ value }}" required{{ " checked" if entered.get("value") == value|string }}{{ " autofocus" if refused and loop.first }}><span>{{ value }}</span></label>
{% endfor %}
</div>
<p class="ends" id="value-ends"><span><b>{{ form.low }}</b> {{ t("tasks.*.low", task) }}</span><span>{{ t("tasks.*.high", task) }} <b>{{ form.high }}</b></span></p>
</fieldset>
"""  # noqa: E501
    feedback_html = """
<p class="lead">{{ t("feedback.rating", answer=answer.value) }}</p>
"""

    @property
    def columns(self) -> Mapping[str, str]:
        return {"value": f"the rating, from {self.low} to {self.high}"}

    def read(self, sent: SentAnswer) -> Answer:
        return answer_of(read_number(sent.value, self.low, self.high))

    def truth_problems(self, truth: Truth, choices: int) -> Iterator[str]:
        if truth is not None:
            yield f"cannot have the truth {truth}"

    def noise(self, people: int, items: int, draw: np.random.Generator) -> AnswerNoise:
        return AnswerNoise(draw.standard_normal((people, items)))

    def simulate(
        self, ease: Float[np.ndarray, "people items"], truth: Float[np.ndarray, "*truths"], noise: AnswerNoise, bets: float
    ) -> AnswerBatch:
        return AnswerBatch(rounded(self._middle(ease) + (self.high - self.low) * _NOISE * noise.main, self.low, self.high))

    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        return AnswerBatch(guessed(ndtr(noise.main), self.low, self.high))

    def moments(
        self, score: Score, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float
    ) -> Moments:
        deviation = np.full(ease.shape, (self.high - self.low) * _NOISE)
        chance = rounded_chances(self._middle(ease), deviation, self.low, self.high)
        return moments_of_numbers(score, chance, truth, self.low, self.high)

    def _middle(self, ease: Float[np.ndarray, "ways items"]) -> Float[np.ndarray, "ways items"]:
        return (self.low + self.high) / 2 + (self.high - self.low) * _WIDTH * ease
