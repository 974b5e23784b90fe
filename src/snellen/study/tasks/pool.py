"""The images of a run that a study can show, and the items that tasks have made of them so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from snellen.study.making.balancing import pick
from snellen.types import Rng

T = TypeVar("T")
Band = Literal["low", "middle", "high"]
BANDS: tuple[tuple[Band, float], ...] = (("low", 0.5), ("middle", 0.8), ("high", float("inf")))
"""Bands of the model's confidence, each with the probability below which it lies."""


@dataclass(frozen=True)
class Candidate:
    """An image of the run with the model's prediction."""

    sample: str
    """Its name in the run."""
    label: int | None
    """The class that is right; None where it is unknown."""
    prediction: int
    """The class that the model predicts."""
    probability: float
    """Of the prediction."""
    explained: bool = True
    """Whether the run's maps explain the prediction, and not another class."""

    @property
    def right(self) -> bool | None:
        """Whether the model was right; None without a label."""
        return None if self.label is None else self.label == self.prediction

    @property
    def band(self) -> Band:
        """How confident the model was."""
        return next(name for name, end in BANDS if self.probability < end)

    @property
    def class_index(self) -> int:
        """The label or, without one, the prediction."""
        return self.prediction if self.label is None else self.label


@dataclass(frozen=True)
class ChosenItem:
    """The images of one item."""

    task: str
    practice: bool
    """Whether its answers do not count."""
    images: tuple[Candidate, ...]
    """Images that are shown with maps."""
    further: tuple[Candidate, ...] = ()
    """Images that are shown without maps, to choose from."""


class Pool:
    """The images of the run, how often each was chosen already, and the items so far. Every draw depends on the seed."""

    def __init__(self, images: Sequence[Candidate], seed: int) -> None:
        self.seed = seed
        self.images = images
        self.explained = [image for image in images if image.explained]
        """Images that may be shown; a map of the true class would give it away."""
        self.accuracy = accuracy(images)
        self.used: Counter[str] = Counter()
        self.items: list[ChosenItem] = []
        self.notes: list[str] = []
        """What the experimenter should know of the items."""

    def draw(self, name: str) -> np.random.Generator:
        """The random numbers for a purpose of this name."""
        return Rng(self.seed, ()).shared(f"study/choosing/{name}")

    def shuffled(self, values: Sequence[T], name: str) -> list[T]:
        """The values in a random order of this name."""
        return [values[index] for index in self.draw(name).permutation(len(values))]

    def add(self, task: str, *, practice: bool, images: Sequence[Candidate], further: Sequence[Candidate] = ()) -> None:
        """Adds an item.

        Args:
            task: The name of its task.
            practice: Whether it is for practice.
            images: The images that are shown with maps.
            further: The images to choose from, without maps.
        """
        self.used.update(image.sample for image in (*images, *further))
        self.items.append(ChosenItem(task=task, practice=practice, images=tuple(images), further=tuple(further)))

    def seen(self, task: str) -> set[str]:
        """Names of the images in a task's items so far."""
        return {image.sample for item in self.items if item.task == task for image in (*item.images, *item.further)}

    def classes_of(self, task: str) -> Counter[int]:
        """How many items of a task are about each class so far."""
        return Counter(item.images[0].class_index for item in self.items if item.task == task)

    def pick(
        self,
        images: Sequence[Candidate],
        needs: Mapping[Hashable, int],
        *,
        group: Callable[[Candidate], Hashable],
        over: Sequence[Callable[[Candidate], Hashable]] = (),
    ) -> list[Candidate]:
        """As many images of every group as needed, those first that were used least; see `balancing.pick`.

        Args:
            images: The images to pick from, in random order.
            needs: By group, how many to pick.
            group: The group of an image.
            over: The traits over which the choice is to be even, the most important first.
        """
        return pick(images, needs, group=group, reuse=lambda image: self.used[image.sample], over=over)

    def mix(self, images: Sequence[Candidate], *, wrong: int, count: int, name: str) -> list[Candidate]:
        """`count` images in random order, `wrong` of them misclassified or as near to that as possible.

        Args:
            images: The images to pick from.
            wrong: How many misclassified ones.
            count: How many in all.
            name: Of the random numbers.
        """
        available = Counter(image.right for image in images)
        wrong = min(max(wrong, count - available[True]), available[False])
        shuffled = self.shuffled(images, name)
        picked = self.pick(shuffled, {False: wrong, True: count - wrong}, group=lambda image: image.right)
        return self.shuffled(picked, f"{name}/order")

    def typical(self, images: Sequence[Candidate], *, count: int, name: str, spare: int) -> list[Candidate]:
        """Images of a class, right and wrong in the proportion of the class.

        Args:
            images: The images of the class.
            count: How many to pick.
            name: Of the random numbers.
            spare: How many misclassified images to leave over, if possible.
        """
        wrong = round(count * (1 - self.accuracy[images[0].class_index]))
        available = sum(image.right is False for image in images)
        return self.mix(images, wrong=min(wrong, max(available - spare, 0)), count=count, name=f"{name}/shown")


def accuracy(images: Sequence[Candidate]) -> dict[int, float]:
    """By class, how often the model is right on all images of the run with this label."""
    right: dict[int, list[bool]] = {}
    for image in images:
        if image.label is not None:
            right.setdefault(image.label, []).append(image.right is True)
    return {label: sum(values) / len(values) for label, values in right.items()}


def even_shares(total: int, available: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """How many to take of every kind: `total` in all, equally many of each as far as there are enough.

    The remainder goes to the most frequent kinds.

    >>> even_shares(7, {"low": 1, "middle": 9, "high": 5})
    {'low': 1, 'middle': 3, 'high': 3}
    """
    shares = dict.fromkeys(available, 0)
    for _ in range(total):
        open_kinds = [kind for kind in available if shares[kind] < available[kind]]
        shares[min(open_kinds, key=lambda kind: (shares[kind], -available[kind]))] += 1
    return shares
