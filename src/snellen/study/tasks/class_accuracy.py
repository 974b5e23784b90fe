"""Task: how often is the model right on images of a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from snellen.study.tasks.answer import AnswerBatch, Truth
from snellen.study.tasks.forms import Percent
from snellen.study.tasks.pool import ChosenItem, Pool
from snellen.study.tasks.task import Task, find_task, task

ENGLISH = """\
title: How often is the program right?
introduction: |
  Each of the next pages shows three pictures of one kind of thing, and what the program said about each.

  Imagine 100 pictures of this kind. Please estimate how many of them the program names correctly.
maps: The maps show what the answers rest on. Think about whether that will do for other pictures of this kind, too.
question: Of 100 pictures of “{about}”, how many does the program name correctly?
unit: "A number from 0 to 100"
low: none
high: all
"""

GERMAN = """\
title: Wie oft hat das Programm recht?
introduction: |
  Jede der nächsten Seiten zeigt drei Bilder einer Art von Dingen und was das Programm zu jedem gesagt hat.

  Stellen Sie sich 100 Bilder dieser Art vor. Bitte schätzen Sie, wie viele davon das Programm richtig benennt.
maps: Die Karten zeigen, worauf die Antworten beruhen. Überlegen Sie, ob das auch bei anderen Bildern dieser Art ausreicht.
question: Wie viele von 100 Bildern der Art „{about}“ benennt das Programm richtig?
unit: "Eine Zahl von 0 bis 100"
low: keines
high: alle
"""


@task(
    "class-accuracy",
    title="Class accuracy",
    score="distance from the model's accuracy, in points of 100",
    mean="mean distance from the model's accuracy, in points of 100",
    unit="points",
    bounds=(0.0, 100.0),
    higher_is_better=False,
    needs={"labels"},
    images=3,
    about_class=True,
    order=20,
    texts={"en": ENGLISH, "de": GERMAN},
)
@dataclass(frozen=True)
class ClassAccuracy(Task):
    """Participants see three images of a class with predictions and estimate the model's accuracy on the class."""

    form = Percent()

    def choose(self, pool: Pool, *, practice: bool, items: int) -> None:
        """Each item is about another class, because a second question about the same class has the same answer."""
        name, each = self.traits.name, self.traits.images
        used = {item.images[0].class_index for item in pool.items if find_task(item.task).traits.about_class}
        own = pool.classes_of(name)
        classes = {label: images for label, images in self.classes(pool, each).items() if label not in own}
        fresh = [label for label in classes if label not in used]
        labels = pool.shuffled(fresh if len(fresh) >= items else list(classes), f"{name}/{practice}/classes")
        # From hard to easy in as many stretches as there are items, so that true answers differ.
        labels.sort(key=lambda label: pool.accuracy[label])
        draw = pool.draw(f"{name}/{practice}/stretches")
        for stretch in np.array_split(np.array(labels), items):
            label = int(stretch[draw.integers(len(stretch))])
            images = pool.typical(classes[label], count=each, name=f"{name}/{label}", spare=0)
            pool.add(name, practice=practice, images=images)

    def capacity(self, pool: Pool) -> tuple[int, str]:
        return self.class_capacity(pool, self.traits.images)

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return round(100 * accuracy[item.images[0].class_index], 2)

    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        distance: Float[np.ndarray, "people items"] = np.abs(answers.value - truth)
        return distance

    def remarks(self, classes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        if classes:
            numbers = sorted(row["images"] for row in classes.values())
            span = str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
            yield (
                f"{self.traits.name}: the truth is the model's accuracy on all images of a class in the run, {span} of them"
            )
