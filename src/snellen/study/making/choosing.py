"""Which images a study shows: balanced over classes, right and wrong answers, and confidence, as far as a run has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from snellen.charts.numbers import count, listed
from snellen.errors import SnellenError
from snellen.study.making.evenness import pick
from snellen.study.protocol import Protocol, TaskName, TaskPlan
from snellen.study.tasks import FURTHER, SHOWN, TASKS
from snellen.types import Rng

T = TypeVar("T")
Band = Literal["low", "middle", "high"]
BANDS: tuple[tuple[Band, float], ...] = (("low", 0.5), ("middle", 0.8), ("high", float("inf")))
"""Confidence below this probability."""

_ORDER: tuple[TaskName, ...] = (
    "forward-selection",
    "class-accuracy",
    "error-detection",
    "betting",
    "confidence",
    "sharpness",
)
"""Tasks that are harder to serve choose first."""

_ERRORS: tuple[TaskName, ...] = ("error-detection", "betting")


@dataclass(frozen=True)
class Candidate:
    """An image of the run, and what the model said of it."""

    sample: str
    label: int | None
    prediction: int
    probability: float
    explained: bool = True
    """Whether the run's maps explain what the model said, and not another class."""

    @property
    def right(self) -> bool | None:
        """Whether the model was right; None where nobody knows."""
        return None if self.label is None else self.label == self.prediction

    @property
    def band(self) -> Band:
        """How confident the model was, in three bands."""
        return next(name for name, end in BANDS if self.probability < end)


@dataclass(frozen=True)
class Chosen:
    """The images of one item."""

    task: TaskName
    practice: bool
    shown: tuple[Candidate, ...]
    further: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Choice:
    """All items of a study, in the order of its tasks, practice first; and what an experimenter should know of them."""

    items: tuple[Chosen, ...]
    notes: tuple[str, ...]

    def table(self) -> list[dict[str, Any]]:
        """A row per task and kind of item: how many, and how the images with maps are spread."""
        rows: list[dict[str, Any]] = []
        for task, practice in dict.fromkeys((one.task, one.practice) for one in self.items):
            some = [one for one in self.items if (one.task, one.practice) == (task, practice)]
            shown = [image for one in some for image in one.shown]
            bands: Counter[str] = Counter(one.band for one in shown)
            rows.append(
                {
                    "task": task,
                    "practice": practice,
                    "items": len(some),
                    "images": len({image.sample for one in some for image in (*one.shown, *one.further)}),
                    "classes": len({_class(one) for one in shown}),
                    "right": sum(one.right is True for one in shown),
                    "wrong": sum(one.right is False for one in shown),
                }
                | {str(name): bands[name] for name, _ in BANDS}
            )
        return rows


def candidates(samples: pd.DataFrame) -> tuple[Candidate, ...]:
    """The images of a run, from the table of its samples."""
    return tuple(
        Candidate(
            str(one["sample"]),
            None if pd.isna(one["label"]) else int(one["label"]),
            int(one["prediction"]),
            float(one["probability"]),
            int(one["target"]) == int(one["prediction"]),
        )
        for one in samples.to_dict("records")
    )


def choose(images: Sequence[Candidate], protocol: Protocol) -> Choice:
    """Images for every task of the protocol, by its seed; what a run cannot serve is refused with the numbers there are."""
    return _Table(images, protocol).laid()


class _Table:
    """The images at hand, how often each was chosen already, and which classes were asked about."""

    def __init__(self, images: Sequence[Candidate], protocol: Protocol) -> None:
        self.protocol = protocol
        self.all = images
        self.open = [one for one in images if one.explained]
        self.accuracy = accuracy(images)
        self.used: Counter[str] = Counter()
        self.items: list[Chosen] = []
        self.notes: list[str] = []

    def laid(self) -> Choice:
        plans = sorted(self.protocol.tasks, key=lambda plan: _ORDER.index(plan.task))
        for plan in plans:
            for problem in self._problems(plan):
                raise SnellenError(problem)
        # Items that count choose before all practice, so that practice gets what is left over.
        for practice in (False, True):
            for plan in plans:
                start, wanted = len(self.items), plan.practice if practice else plan.items
                if wanted:
                    self._serve(plan.task, practice, wanted)
                    self.items[start:] = self._arranged(self.items[start:])
        order = [plan.task for plan in self.protocol.tasks]
        items = sorted(self.items, key=lambda one: (order.index(one.task), not one.practice))
        return Choice(tuple(items), (*self._left_out(), *self.notes, *self._reused()))

    def _serve(self, task: TaskName, practice: bool, wanted: int) -> None:
        if task == "class-accuracy":
            self._estimates(practice, wanted)
        elif task == "forward-selection":
            for _ in range(wanted):
                self._selection(practice)
        else:
            self._judgements(task, practice, wanted)

    # One image per item ------------------------------------------------------------------------------------------------

    def _judgements(self, task: TaskName, practice: bool, wanted: int) -> None:
        mine = self._seen(task)
        pool = [one for one in self._shuffled(self._fit(task), f"{task}/{practice}") if one.sample not in mine]
        group = _TRUTHS[task]
        needs = _shares(wanted, Counter(group(one) for one in pool))
        wrong = needs.get(False, 0)
        if task in _ERRORS and not practice and abs(2 * wrong - wanted) > 1:
            there = Counter(one.right for one in pool)
            self.notes.append(
                f"{task}: the model is wrong in {wrong} of {count(wanted, 'item')}, because it is wrong on "
                f"{there[False]} and right on {there[True]} images of the run"
            )
        used = self.used
        for one in pick(pool, needs, group=group, reuse=lambda one: used[one.sample], over=(_class, lambda one: one.band)):
            self._item(task, practice, [one])

    def _fit(self, task: TaskName) -> list[Candidate]:
        """The images that a task can show."""
        if task == "sharpness":
            return list(self.open)
        return [one for one in self.open if one.right or (one.right is False and task != "confidence")]

    def _seen(self, task: TaskName) -> set[str]:
        """The images of a task's items up to now."""
        return {image.sample for one in self.items if one.task == task for image in (*one.shown, *one.further)}

    # Several images of one class per item ------------------------------------------------------------------------------

    def _classes(self, task: TaskName) -> dict[int, list[Candidate]]:
        """By class, the images that the task has not shown yet, where there are enough for an item."""
        seen = self._seen(task)
        found: dict[int, list[Candidate]] = {}
        for one in self._fit(task):
            if one.sample not in seen:
                found.setdefault(_class(one), []).append(one)
        return {label: some for label, some in sorted(found.items()) if len(some) >= _NEEDS[task]}

    def _asked(self, task: TaskName) -> Counter[int]:
        """How often a task has asked about each class."""
        return Counter(_class(one.shown[0]) for one in self.items if one.task == task)

    def _estimates(self, practice: bool, wanted: int) -> None:
        """Each about another class, because a second question about the same one has the same answer."""
        task: TaskName = "class-accuracy"
        mine, others = self._asked(task), self._asked("forward-selection")
        classes = {label: some for label, some in self._classes(task).items() if label not in mine}
        fresh = [label for label in classes if label not in others]
        pool = self._shuffled(fresh if len(fresh) >= wanted else list(classes), f"{task}/{practice}/classes")
        # From hard to easy in as many stretches as there are items, so that true answers differ.
        pool.sort(key=lambda label: self.accuracy[label])
        draw = self._draw(f"{task}/{practice}/stretches")
        labels = [int(some[draw.integers(len(some))]) for some in np.array_split(np.array(pool), wanted)]
        for label in labels:
            self._item(task, practice, self._typical(classes[label], f"{task}/{label}", keep=0))

    def _selection(self, practice: bool) -> None:
        """About the class that was asked about least, with images that no other such item has."""
        task: TaskName = "forward-selection"
        asked, classes = self._asked(task), self._classes(task)
        name = f"{task}/{asked.total()}"
        order = self._shuffled(list(classes), name)
        # Where the model gets all images of a class right, or none, there is nothing to choose.
        label = min(order, key=lambda one: (asked[one], len({image.right for image in classes[one]}) < 2))
        shown = self._typical(classes[label], name, keep=2)
        further = self._mixed([one for one in classes[label] if one not in shown], name)
        self._item(task, practice, shown, further)

    def _typical(self, some: Sequence[Candidate], name: str, *, keep: int) -> list[Candidate]:
        """Three images, right and wrong in the proportion of their class; if possible, `keep` wrong ones are left over."""
        wrong = round(SHOWN * (1 - self.accuracy[_class(some[0])]))
        there = sum(one.right is False for one in some)
        return self._mix(some, min(wrong, max(there - keep, 0)), SHOWN, f"{name}/shown")

    def _mixed(self, some: Sequence[Candidate], name: str) -> list[Candidate]:
        """Six images, two to four of them wrong where there are so many, so that their number cannot be guessed."""
        return self._mix(some, int(self._draw(f"{name}/wrong").integers(2, FURTHER - 1)), FURTHER, f"{name}/further")

    def _mix(self, some: Sequence[Candidate], wrong: int, wanted: int, name: str) -> list[Candidate]:
        """So many images in random order, with about so many wrong ones as there can be."""
        there = Counter(one.right for one in some)
        wrong = min(max(wrong, wanted - there[True]), there[False])
        pool = self._shuffled(some, name)
        needs: dict[Hashable, int] = {False: wrong, True: wanted - wrong}
        found = pick(pool, needs, group=lambda one: one.right, reuse=lambda one: self.used[one.sample])
        return self._shuffled(found, f"{name}/order")

    # Of all kinds ------------------------------------------------------------------------------------------------------

    def _item(self, task: TaskName, practice: bool, shown: Sequence[Candidate], further: Sequence[Candidate] = ()) -> None:
        self.used.update(one.sample for one in (*shown, *further))
        self.items.append(Chosen(task, practice, tuple(shown), tuple(further)))

    def _arranged(self, found: Sequence[Chosen]) -> list[Chosen]:
        """In random order. Within subjects every condition gets each so manieth item, and all of them alike ones."""
        name = f"{found[0].task}/items"
        order = self._shuffled(found, name)
        if self.protocol.design == "between" or found[0].practice:
            return order
        step = len(self.protocol.conditions)
        order.sort(key=lambda one: (sum(image.right is not False for image in one.shown), one.shown[0].band))
        blocks = [self._shuffled(order[start : start + step], f"{name}/{start}") for start in range(0, len(order), step)]
        whole = [one for one in blocks if len(one) == step]
        return [one for block in (*self._shuffled(whole, f"{name}/blocks"), *blocks[len(whole) :]) for one in block]

    def _draw(self, name: str) -> np.random.Generator:
        return Rng(self.protocol.seed, ()).shared(f"study/choosing/{name}")

    def _shuffled(self, some: Sequence[T], name: str) -> list[T]:
        return [some[place] for place in self._draw(name).permutation(len(some))]

    # What is told ------------------------------------------------------------------------------------------------------

    def _problems(self, plan: TaskPlan) -> Iterator[str]:
        """Why the run cannot serve a task, with the numbers there are and what can be done."""
        task, wanted = plan.task, plan.items + plan.practice
        fit = self._fit(task)
        there = Counter(one.right for one in self.open)
        if task != "sharpness" and not there[True] + there[False]:
            yield f"{task} asks about right and wrong answers, but no image of the run has a label; give the run --labels"
        if task in _ERRORS:
            for right, word, other in ((False, "wrong", "right"), (True, "right", "wrong")):
                if not there[right]:
                    yield (
                        f"{task} needs images that the model gets {word}, but it is {other} on all {len(fit)}; "
                        "choose another task, or a run with other images"
                    )
        places, what = len(fit), f"the run has {count(len(fit), 'image')} for it"
        if task == "confidence":
            what = f"the model is right on {count(len(fit), 'image')} of the run"
        elif TASKS[task].about_class:
            classes = self._classes(task)
            places = len(classes)
            of = "1 class of the run has" if places == 1 else f"{places} classes of the run have"
            what = f"{of} {_NEEDS[task]} images or more"
            if task == "forward-selection":
                places = sum(len(some) // _NEEDS[task] for some in classes.values())
                what = f"{what}, which is enough for {count(places, 'item')}"
        if places < wanted:
            fewer = f"give {task}:{places - plan.practice}" if places > plan.practice else "choose another task"
            yield (
                f"{task} asks for {count(plan.items, 'item')} and {plan.practice} for practice, but {what}; "
                f"{fewer}, or take a run with more images"
            )

    def _left_out(self) -> Iterator[str]:
        left = len(self.all) - len(self.open)
        if left:
            yield f"{count(left, 'image')} left out, of which the run's maps explain another class than the model said"
        unknown = sum(one.label is None for one in self.open)
        if unknown:
            yield f"{count(unknown, 'image')} without a label can be shown for sharpness only"
        some = [one for one in self.items if one.task == "forward-selection" and not one.practice]
        plain = sum(len({image.right for image in one.further}) < 2 for one in some)
        if plain:
            yield f"forward-selection: in {plain} of {count(len(some), 'item')} the model gets all six images right, or none"

    def _reused(self) -> Iterator[str]:
        """What is shown in several items."""
        where: dict[str, list[Chosen]] = {}
        for one in self.items:
            for image in (*one.shown, *one.further):
                where.setdefault(image.sample, []).append(one)
        twice = [some for some in where.values() if len(some) > 1]
        if twice:
            known = {one.task for some in twice for one in some}
            tasks = listed([plan.task for plan in self.protocol.tasks if plan.task in known])
            told = sum(len({one.practice for one in some}) > 1 for some in twice)
            also = f", {told} of them for practice and in earnest" if told else ""
            yield (
                f"{count(len(twice), 'image')} shown again in another task ({tasks}){also}; "
                "a run with more images would avoid it"
            )


_TRUTHS: Mapping[TaskName, Callable[[Candidate], Hashable]] = {
    "error-detection": lambda one: one.right,
    "betting": lambda one: one.right,
    "confidence": lambda one: one.band,
    "sharpness": lambda one: None,
}
"""What the right answers of a task hang on: they are balanced before anything else."""

_NEEDS: Mapping[TaskName, int] = {"class-accuracy": SHOWN, "forward-selection": SHOWN + FURTHER}
"""Images of one class that an item takes."""


def _shares(wanted: int, there: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """So many in all, of every kind equally many as far as there are enough; what is over goes to the most frequent.

    >>> _shares(7, {"low": 1, "middle": 9, "high": 5})
    {'low': 1, 'middle': 3, 'high': 3}
    """
    shares = dict.fromkeys(there, 0)
    for _ in range(wanted):
        open_kinds = [one for one in there if shares[one] < there[one]]
        shares[min(open_kinds, key=lambda one: (shares[one], -there[one]))] += 1
    return shares


def accuracy(images: Sequence[Candidate]) -> dict[int, float]:
    """By class, how often the model is right on all images of the run with this label."""
    found: dict[int, list[bool]] = {}
    for one in images:
        if one.label is not None:
            found.setdefault(one.label, []).append(one.right is True)
    return {label: sum(some) / len(some) for label, some in found.items()}


def _class(one: Candidate) -> int:
    """What counts as an image's class: its label, or what the model said where there is none."""
    return one.prediction if one.label is None else one.label
