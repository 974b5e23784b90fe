"""Task: how sure is the model of a right answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from snellen.charts.numbers import count
from snellen.study.tasks.answer import AnswerBatch, Truth
from snellen.study.tasks.forms import Percent
from snellen.study.tasks.pool import Candidate, ChosenItem, Pool
from snellen.study.tasks.task import Task, task

ENGLISH = """\
title: How sure is the program?
introduction: |
  On the next pages you see pictures that the program named **correctly**.

  The program also computes how sure it is of each answer, from 0 % (not sure at all) to 100 % (completely sure). Please
  estimate this number.
maps: The map shows what the answer rests on. Think about what it tells you of how sure the program is.
question: How sure is the program of this answer?
unit: "Per cent, from 0 to 100"
low: not sure at all
high: completely sure
"""

GERMAN = """\
title: Wie sicher ist das Programm?
introduction: |
  Auf den nächsten Seiten sehen Sie Bilder, die das Programm **richtig** benannt hat.

  Das Programm berechnet auch, wie sicher es sich bei jeder Antwort ist, von 0 % (gar nicht sicher) bis 100 % (völlig
  sicher). Bitte schätzen Sie diese Zahl.
maps: Die Karte zeigt, worauf die Antwort beruht. Überlegen Sie, was sie darüber verrät, wie sicher das Programm ist.
question: Wie sicher ist sich das Programm bei dieser Antwort?
unit: "Prozent, von 0 bis 100"
low: gar nicht sicher
high: völlig sicher
"""


@task(
    "confidence",
    title="Confidence estimation",
    score="distance from the model's confidence, in points of 100",
    mean="mean distance from the model's confidence, in points of 100",
    unit="points",
    bounds=(0.0, 100.0),
    higher_is_better=False,
    needs={"labels"},
    order=50,
    texts={"en": ENGLISH, "de": GERMAN},
)
@dataclass(frozen=True)
class Confidence(Task):
    """Participants see an image that the model got right and estimate the model's confidence."""

    form = Percent()

    def fits(self, image: Candidate) -> bool:
        return image.right is True

    def group(self, image: Candidate) -> Hashable:
        return image.band

    def capacity(self, pool: Pool) -> tuple[int, str]:
        images = len(self.images(pool))
        return images, f"the model is right on {count(images, 'image')} of the run"

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return round(100 * item.images[0].probability, 2)

    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        distance: Float[np.ndarray, "people items"] = np.abs(answers.value - truth)
        return distance
