"""A number from 0 to 100."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from snellen.study.tasks.answer import Answer, AnswerBatch, AnswerNoise, SentAnswer, Truth
from snellen.study.tasks.forms.form import Form, Moments, Score, answer_of, moments_of_numbers, range_problems, read_number
from snellen.study.tasks.forms.simulation import guessed, rounded, rounded_chances

_ERROR = 20.0
"""Standard deviation of estimates at ease 0, in points."""
_DECAY = 0.3
"""How fast that falls with ease: by the factor exp(−0.3) per unit."""


@dataclass(frozen=True)
class Percent(Form):
    """An estimate from 0 to 100, typed or set on a slider.

    Simulated participants answer the truth plus normal noise with a standard deviation of 20·exp(−0.3·ease) points.
    """

    low: int = 0
    high: int = 100

    texts = ("unit", "low", "high")
    html = """
{% set question = t("tasks.*.question", task, about=about) %}
{{ parts.number(t, "value", question, task, (form.low, form.high), entered, refused, focus) }}
"""
    feedback_html = """
<p class="lead">{{ t("feedback.truth", answer=truth) }}</p>
<p>{{ t("feedback.yours", answer=answer.value) }}</p>
<p>{{ t("feedback.distance", points=score) }}</p>
"""

    @property
    def columns(self) -> Mapping[str, str]:
        return {"value": "the estimate, in per cent"}

    def read(self, sent: SentAnswer) -> Answer:
        return answer_of(read_number(sent.value, self.low, self.high))

    def truth_problems(self, truth: Truth, choices: int) -> Iterator[str]:
        return range_problems(truth, 100)

    def noise(self, people: int, items: int, draw: np.random.Generator) -> AnswerNoise:
        return AnswerNoise(draw.standard_normal((people, items)))

    def simulate(
        self, ease: Float[np.ndarray, "people items"], truth: Float[np.ndarray, "*truths"], noise: AnswerNoise, bets: float
    ) -> AnswerBatch:
        return AnswerBatch(rounded(truth + _deviation(ease) * noise.main, self.low, self.high))

    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        return AnswerBatch(guessed(ndtr(noise.main), self.low, self.high))

    def moments(
        self, score: Score, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float
    ) -> Moments:
        chance = rounded_chances(np.broadcast_to(truth, ease.shape), _deviation(ease), self.low, self.high)
        return moments_of_numbers(score, chance, truth, self.low, self.high)


def _deviation(ease: Float[np.ndarray, "ways items"]) -> Float[np.ndarray, "ways items"]:
    # The deviation is at most ten times, and at least a tenth of, that at ease 0.
    points: Float[np.ndarray, "ways items"] = _ERROR * np.exp(np.clip(-_DECAY * ease, -np.log(10), np.log(10)))
    return points
