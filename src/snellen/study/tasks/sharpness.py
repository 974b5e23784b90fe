"""Task: how sharp is the map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from snellen.study.tasks.answer import AnswerBatch, Truth
from snellen.study.tasks.forms import Rating
from snellen.study.tasks.pool import ChosenItem
from snellen.study.tasks.task import Task, task

ENGLISH = """\
title: How sharp is the map?
introduction: |
  On the next pages, look at the map itself. Is it sharp, so that you see exactly which places are meant? Or is it
  blurred, so that you can only guess?

  There is no right or wrong here; your impression counts.
maps: Rate every map from 1 (very blurred) to 7 (very sharp).
question: How sharp is this map?
low: very blurred
high: very sharp
"""

GERMAN = """\
title: Wie scharf ist die Karte?
introduction: |
  Achten Sie auf den nächsten Seiten auf die Karte selbst. Ist sie scharf, sodass Sie genau sehen, welche Stellen gemeint
  sind? Oder ist sie verschwommen, sodass Sie es nur ahnen?

  Richtig oder falsch gibt es hier nicht; Ihr Eindruck zählt.
maps: Bewerten Sie jede Karte von 1 (sehr verschwommen) bis 7 (sehr scharf).
question: Wie scharf ist diese Karte?
low: sehr verschwommen
high: sehr scharf
"""


@task(
    "sharpness",
    title="Sharpness",
    score="rating from 1, blurred, to 7, sharp",
    mean="mean rating from 1, blurred, to 7, sharp",
    unit="points",
    bounds=(1.0, 7.0),
    higher_is_better=True,
    needs_map=True,
    ability=False,
    order=60,
    texts={"en": ENGLISH, "de": GERMAN},
)
@dataclass(frozen=True)
class Sharpness(Task):
    """Participants see an image with its map and rate how sharp the map is; no rating is right or wrong."""

    form = Rating(1, 7)

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return None

    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        return answers.value.astype(np.float64)
