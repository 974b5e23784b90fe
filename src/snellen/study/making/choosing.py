"""Which images a study shows: balanced over classes, right and wrong predictions, and confidence, as far as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from snellen.charts.numbers import count, join_names
from snellen.errors import SnellenError
from snellen.study.protocol import Protocol, TaskPlan
from snellen.study.stimuli import ChosenRow
from snellen.study.tasks import TASKS, Candidate, ChosenItem, Pool, find_task


@dataclass(frozen=True)
class ItemChoice:
    """All items of a study, in the order of its tasks, practice first; and what an experimenter should know of them."""

    items: tuple[ChosenItem, ...]
    notes: tuple[str, ...]

    def table(self) -> list[ChosenRow]:
        """A row per task, for practice and for items that count: how many, and how the images with maps are spread."""
        rows = []
        for task, practice in dict.fromkeys((item.task, item.practice) for item in self.items):
            items = [item for item in self.items if (item.task, item.practice) == (task, practice)]
            images = [image for item in items for image in item.images]
            bands: Counter[str] = Counter(image.band for image in images)
            rows.append(
                ChosenRow(
                    task=task,
                    practice=practice,
                    items=len(items),
                    images=len({image.sample for item in items for image in (*item.images, *item.further)}),
                    classes=len({image.class_index for image in images}),
                    right=sum(image.right is True for image in images),
                    wrong=sum(image.right is False for image in images),
                    low=bands["low"],
                    middle=bands["middle"],
                    high=bands["high"],
                )
            )
        return rows


def candidates(samples: pd.DataFrame) -> tuple[Candidate, ...]:
    """The images of a run, from the table of its samples."""
    return tuple(
        Candidate(
            sample=str(row["sample"]),
            label=None if pd.isna(row["label"]) else int(row["label"]),
            prediction=int(row["prediction"]),
            probability=float(row["probability"]),
            explained=int(row["target"]) == int(row["prediction"]),
        )
        for row in samples.to_dict("records")
    )


def choose(images: Sequence[Candidate], protocol: Protocol) -> ItemChoice:
    """Images for every task of the protocol, by its seed; a task for which the run has too few images is refused."""
    pool = Pool(images, protocol.seed)
    # Tasks that are harder to serve choose first.
    plans = sorted(protocol.tasks, key=lambda plan: find_task(plan.task).traits.order)
    for plan in plans:
        for problem in _problems(pool, plan):
            raise SnellenError(problem)
    # Items that count choose before all practice, so that practice gets what is left over.
    for practice in (False, True):
        for plan in plans:
            start, items = len(pool.items), plan.practice if practice else plan.items
            if items:
                find_task(plan.task).choose(pool, practice=practice, items=items)
                pool.items[start:] = _arranged(pool, protocol, pool.items[start:])
    order = [plan.task for plan in protocol.tasks]
    chosen = sorted(pool.items, key=lambda item: (order.index(item.task), not item.practice))
    return ItemChoice(tuple(chosen), (*_left_out(pool), *_task_notes(pool, protocol), *pool.notes, *_reused(pool, protocol)))


def _arranged(pool: Pool, protocol: Protocol, items: Sequence[ChosenItem]) -> list[ChosenItem]:
    """The items of a task in random order.

    Within subjects, condition i of n gets every n-th item from the i-th on, so items are put into blocks of n similar ones.
    """
    name = f"{items[0].task}/items"
    order = pool.shuffled(items, name)
    if protocol.design == "between" or items[0].practice:
        return order
    step = len(protocol.conditions)
    order.sort(key=lambda item: (sum(image.right is not False for image in item.images), item.images[0].band))
    blocks = [pool.shuffled(order[start : start + step], f"{name}/{start}") for start in range(0, len(order), step)]
    whole = [block for block in blocks if len(block) == step]
    return [item for block in (*pool.shuffled(whole, f"{name}/blocks"), *blocks[len(whole) :]) for item in block]


def _problems(pool: Pool, plan: TaskPlan) -> Iterator[str]:
    """Why the run does not suffice for a task, with its numbers and what can be done."""
    task, needs = find_task(plan.task), find_task(plan.task).traits.needs
    predictions = Counter(image.right for image in pool.explained)
    if "labels" in needs and not predictions[True] + predictions[False]:
        yield f"{plan.task} asks which predictions are right, but no image of the run has a label; give the run --labels"
    if "errors" in needs:
        for right, word, other in ((False, "wrong", "right"), (True, "right", "wrong")):
            if not predictions[right]:
                yield (
                    f"{plan.task} needs images that the model gets {word}, but it is {other} on all "
                    f"{len(task.images(pool))}; choose another task, or a run with other images"
                )
    most, why = task.capacity(pool)
    if most < plan.items + plan.practice:
        fewer = f"give {plan.task}:{most - plan.practice}" if most > plan.practice else "choose another task"
        yield (
            f"{plan.task} asks for {count(plan.items, 'item')} and {plan.practice} for practice, but {why}; "
            f"{fewer}, or take a run with more images"
        )


def _left_out(pool: Pool) -> Iterator[str]:
    left = len(pool.images) - len(pool.explained)
    if left:
        yield f"{count(left, 'image')} left out, because the run's maps explain another class than the predicted one"
    unlabelled = sum(image.label is None for image in pool.explained)
    if unlabelled:
        tasks = join_names([name for name, plugin in TASKS.items() if "labels" not in plugin.traits.needs])
        yield f"{count(unlabelled, 'image')} without a label can be shown for {tasks} only"


def _task_notes(pool: Pool, protocol: Protocol) -> Iterator[str]:
    for plan in protocol.tasks:
        yield from find_task(plan.task).notes([item for item in pool.items if item.task == plan.task and not item.practice])


def _reused(pool: Pool, protocol: Protocol) -> Iterator[str]:
    """A note on the images that several items show."""
    where: dict[str, list[ChosenItem]] = {}
    for item in pool.items:
        for image in (*item.images, *item.further):
            where.setdefault(image.sample, []).append(item)
    twice = [items for items in where.values() if len(items) > 1]
    if twice:
        names = {item.task for items in twice for item in items}
        tasks = join_names([plan.task for plan in protocol.tasks if plan.task in names])
        both = sum(len({item.practice for item in items}) > 1 for items in twice)
        also = f", {both} of them also for practice" if both else ""
        yield (
            f"{count(len(twice), 'image')} shown again in another task ({tasks}){also}; "
            "a run with more images would avoid it"
        )
