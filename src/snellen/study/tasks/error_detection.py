"""Task: is the model right or wrong, and how certain is the participant of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from snellen.study.tasks.answer import AnswerBatch, Truth
from snellen.study.tasks.forms import Decision
from snellen.study.tasks.pool import ChosenItem
from snellen.study.tasks.task import Task, task

ENGLISH = """\
title: Right or wrong?
introduction: |
  On the next pages you see pictures, each with the program's answer. Sometimes the answer is right, sometimes it is
  wrong. Please decide which it is.

  Then say how certain you are of **your own** decision: from 50 % (a mere guess) to 100 % (certain).
maps: The map shows what the answer rests on. Think about whether that makes sense.
question: Is the program's answer right or wrong?
beside: How certain are you of your decision?
unit: "Per cent, from 50 to 100"
low: a guess
high: certain
"""

GERMAN = """\
title: Richtig oder falsch?
introduction: |
  Auf den nächsten Seiten sehen Sie Bilder, jedes mit der Antwort des Programms. Manchmal ist die Antwort richtig, manchmal
  falsch. Bitte entscheiden Sie, was zutrifft.

  Geben Sie dann an, wie sicher Sie sich **Ihrer eigenen** Entscheidung sind: von 50 % (bloß geraten) bis 100 % (ganz
  sicher).
maps: Die Karte zeigt, worauf die Antwort beruht. Überlegen Sie, ob das einleuchtet.
question: Ist die Antwort des Programms richtig oder falsch?
beside: Wie sicher sind Sie sich Ihrer Entscheidung?
unit: "Prozent, von 50 bis 100"
low: geraten
high: ganz sicher
"""


@task(
    "error-detection",
    title="Error detection",
    score="1 for a right answer, 0 for a wrong one",
    mean="share of right answers",
    unit="",
    bounds=(0.0, 1.0),
    higher_is_better=True,
    binary=True,
    needs={"labels", "errors"},
    order=30,
    texts={"en": ENGLISH, "de": GERMAN},
)
@dataclass(frozen=True)
class ErrorDetection(Task):
    """Participants see an image with the model's prediction and decide whether it is right; then they state a certainty."""

    form = Decision(50, 100, "certainty")

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return float(item.images[0].right is False)

    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        return np.asarray(answers.value == truth, dtype=np.float64)
