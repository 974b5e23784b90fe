"""A choice among further pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from snellen.study.tasks.answer import Answer, AnswerBatch, AnswerError, AnswerNoise, SentAnswer, Truth
from snellen.study.tasks.forms.form import Form, Moments, Score, read_number
from snellen.study.tasks.forms.simulation import chance_right


@dataclass(frozen=True)
class Selection(Form):
    """Any number of `pictures` further pictures, from none to all.

    Simulated participants judge each picture rightly with probability ½ + ½·logistic(ease).
    """

    pictures: int = 6

    texts = ("hint",)
    html = """
<fieldset class="question"{{ parts.tied(refused, "chosen", "chosen-hint") }}>
<legend>{{ t("tasks.*.question", task, about=about) }}</legend>
{{ parts.wrong(t, refused, "chosen") }}
<p class="hint" id="chosen-hint">{{ t("tasks.*.hint", task) }}</p>
<div class="six">
{% for image in further %}
<label>{{ parts.picture(image, "") }}<span><input type="checkbox" name="chosen" value="{{ loop.index0 }}"{{ " checked" if loop.index0|string in chosen }}{{ " autofocus" if refused and loop.first }}> {{ t("trial.picture", place=loop.index) }}</span></label>
{% endfor %}
</div>
</fieldset>
"""  # noqa: E501
    feedback_html = """
<p class="lead">{{ t("feedback.chosen", hits=form.pictures - score) }}</p>
<ul class="six">
{% for image, right in judged %}
<li>{{ parts.picture(image, t("trial.picture", place=loop.index)) }}<span><b>{{ t("feedback.named") if right else t("feedback.not_named") }}</b> {{ t("feedback.you_chose") if loop.index0 in answer.chosen else t("feedback.you_left") }}</span></li>
{% endfor %}
</ul>
"""  # noqa: E501

    @property
    def columns(self) -> Mapping[str, str]:
        return {"chosen": "positions (from 0) of the chosen images, separated by semicolons"}

    def read(self, sent: SentAnswer) -> Answer:
        positions = {read_number(text, 0, self.pictures - 1, "impossible") for text in sent.chosen}
        if "impossible" in positions:
            raise AnswerError({"chosen": "impossible"})
        return Answer(chosen=tuple(sorted(int(position) for position in positions)))

    def truth_problems(self, truth: Truth, choices: int) -> Iterator[str]:
        if not isinstance(truth, tuple) or not truth or len(truth) != choices:
            yield "needs as its truth, of every image to choose from, whether the model is right"

    def noise(self, people: int, items: int, draw: np.random.Generator) -> AnswerNoise:
        return AnswerNoise(draw.random((people, items, self.pictures)))

    def simulate(
        self, ease: Float[np.ndarray, "people items"], truth: Float[np.ndarray, "*truths"], noise: AnswerNoise, bets: float
    ) -> AnswerBatch:
        rightly = noise.main < chance_right(ease)[..., None]
        return AnswerBatch(np.zeros(ease.shape, dtype=np.int64), chosen=rightly == (truth > 0))

    def careless(self, noise: AnswerNoise) -> AnswerBatch:
        return AnswerBatch(np.zeros(noise.main.shape[:2], dtype=np.int64), chosen=noise.main < 0.5)

    def moments(
        self, score: Score, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float
    ) -> Moments:
        """Of the number of pictures that were judged wrongly."""
        right = chance_right(ease)
        wrong = self.pictures * (1 - right)
        return wrong, wrong * right + wrong**2
