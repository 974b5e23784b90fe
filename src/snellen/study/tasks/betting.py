"""Task: is the model right or wrong, and how many points does the participant stake on that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from snellen.study.tasks.answer import AnswerBatch, Truth
from snellen.study.tasks.forms import Decision
from snellen.study.tasks.forms.form import Moments
from snellen.study.tasks.pool import ChosenItem
from snellen.study.tasks.task import Task, task

ENGLISH = """\
title: Bet on your answer
introduction: |
  On the next pages you see pictures, each with the program's answer. Decide whether the answer is right or wrong, and
  stake between 0 and 10 points on **your own** decision.

  If you are right, you win the points that you staked. If not, you lose them. At the end you are told your sum.
maps: The map shows what the answer rests on. Think about whether that makes sense before you bet.
question: Is the program's answer right or wrong?
beside: How many points do you stake on your decision?
unit: "Points, from 0 to 10"
low: nothing
high: as much as possible
"""

GERMAN = """\
title: Wetten Sie auf Ihre Antwort
introduction: |
  Auf den nächsten Seiten sehen Sie Bilder, jedes mit der Antwort des Programms. Entscheiden Sie, ob die Antwort richtig
  oder falsch ist, und setzen Sie zwischen 0 und 10 Punkte auf **Ihre eigene** Entscheidung.

  Haben Sie recht, gewinnen Sie die gesetzten Punkte. Haben Sie nicht recht, verlieren Sie sie. Am Ende erfahren Sie Ihre
  Summe.
maps: Die Karte zeigt, worauf die Antwort beruht. Überlegen Sie, ob das einleuchtet, bevor Sie wetten.
question: Ist die Antwort des Programms richtig oder falsch?
beside: Wie viele Punkte setzen Sie auf Ihre Entscheidung?
unit: "Punkte, von 0 bis 10"
low: nichts
high: so viel wie möglich
"""


FEEDBACK = """
<p>{% if score > 0 %}{{ t("feedback.won", points=score) }}
{%- elif score < 0 %}{{ t("feedback.lost", points=-score) }}
{%- else %}{{ t("feedback.even") }}{% endif %}</p>
"""


@task(
    "betting",
    title="Betting",
    score="points won, or lost with a minus",
    mean="mean points won per bet, lost ones with a minus",
    unit="points",
    bounds=(-10.0, 10.0),
    higher_is_better=True,
    needs={"labels", "errors"},
    points_at_end=True,
    order=40,
    texts={"en": ENGLISH, "de": GERMAN},
)
@dataclass(frozen=True)
class Betting(Task):
    """Participants decide whether the model's prediction for an image is right, and stake up to 10 points on that."""

    form = Decision(0, 10, "stake")
    feedback_html = FEEDBACK

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return float(item.images[0].right is False)

    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        assert answers.beside is not None
        points: Float[np.ndarray, "people items"] = answers.beside * np.where(answers.value == truth, 1.0, -1.0)
        return points

    def moments(self, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float) -> Moments:
        return self.form.moments_of_stakes(ease, bets)
