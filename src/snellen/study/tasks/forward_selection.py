"""Task: on which further images of a class will the model be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from snellen.charts.numbers import count
from snellen.study.tasks.answer import AnswerBatch, Truth
from snellen.study.tasks.forms import Selection
from snellen.study.tasks.pool import ChosenItem, Pool
from snellen.study.tasks.task import Task, task

ENGLISH = """\
title: Which ones will it get right?
introduction: |
  Each of the next pages first shows three pictures of one kind of thing, and what the program said about each. Below are
  six further pictures of the same kind.

  Please choose those of the six that the program will name correctly. Any choice is possible, from none to all six.
maps: The maps of the first three pictures show what those answers rest on. The six further pictures have no maps.
question: Which of these six pictures of “{about}” does the program name correctly?
hint: Choose as many as you like, also none.
"""

GERMAN = """\
title: Welche wird es richtig benennen?
introduction: |
  Jede der nächsten Seiten zeigt zuerst drei Bilder einer Art von Dingen und was das Programm zu jedem gesagt hat. Darunter
  stehen sechs weitere Bilder derselben Art.

  Bitte wählen Sie von den sechs diejenigen aus, die das Programm richtig benennen wird. Jede Auswahl ist möglich, von
  keinem bis zu allen sechs.
maps: Die Karten der ersten drei Bilder zeigen, worauf diese Antworten beruhen. Die sechs weiteren Bilder haben keine Karten.
question: Welche dieser sechs Bilder der Art „{about}“ benennt das Programm richtig?
hint: Wählen Sie so viele, wie Sie möchten, auch keines.
"""


@task(
    "forward-selection",
    title="Forward selection",
    score="images out of six that were judged wrongly",
    mean="mean number of images out of six that were judged wrongly",
    unit="images",
    bounds=(0.0, 6.0),
    higher_is_better=False,
    needs={"labels"},
    images=3,
    about_class=True,
    order=10,
    texts={"en": ENGLISH, "de": GERMAN},
)
@dataclass(frozen=True)
class ForwardSelection(Task):
    """Participants see three images of a class with predictions and choose which of six others the model gets right."""

    form = Selection(6)

    @property
    def _images_per_item(self) -> int:
        """Images of one class that an item takes."""
        return self.traits.images + self.form.pictures

    def choose(self, pool: Pool, *, practice: bool, items: int) -> None:
        """Each item is about the class with the fewest items so far, and has images that no other item of this task has."""
        for _ in range(items):
            items_by_class, classes = pool.classes_of(self.traits.name), self.classes(pool, self._images_per_item)
            name = f"{self.traits.name}/{items_by_class.total()}"
            order = pool.shuffled(list(classes), name)
            # Where the model gets all images of a class right, or none, there is nothing to choose.
            label = min(order, key=lambda label: (items_by_class[label], len({image.right for image in classes[label]}) < 2))
            images = pool.typical(classes[label], count=self.traits.images, name=name, spare=2)
            rest = [image for image in classes[label] if image not in images]
            # Two to four are wrong where there are so many, so that their number cannot be guessed.
            wrong = int(pool.draw(f"{name}/wrong").integers(2, self.form.pictures - 1))
            further = pool.mix(rest, wrong=wrong, count=self.form.pictures, name=f"{name}/further")
            pool.add(self.traits.name, practice=practice, images=images, further=further)

    def capacity(self, pool: Pool) -> tuple[int, str]:
        _, classes = self.class_capacity(pool, self._images_per_item)
        items = sum(len(images) // self._images_per_item for images in self.classes(pool, self._images_per_item).values())
        return items, f"{classes}, which is enough for {count(items, 'item')}"

    def notes(self, items: Sequence[ChosenItem]) -> Iterator[str]:
        one_sided = sum(len({image.right for image in item.further}) < 2 for item in items)
        if one_sided:
            of = f"{one_sided} of {count(len(items), 'item')}"
            yield f"{self.traits.name}: in {of} the model gets all six images right, or none"

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return tuple(image.right is True for image in item.further)

    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        assert answers.chosen is not None
        wrong: Float[np.ndarray, "people items"] = (answers.chosen != (truth > 0)).sum(axis=-1).astype(np.float64)
        return wrong
