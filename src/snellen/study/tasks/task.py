"""What a task is, and the registry of tasks. Each task is a plug-in in a file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
import yaml
from jaxtyping import Float
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from snellen.charts.numbers import count
from snellen.errors import SnellenError
from snellen.plugins.registry import Registry
from snellen.study.tasks.answer import Answer, AnswerBatch, Truth
from snellen.study.tasks.forms import Form
from snellen.study.tasks.forms.form import Moments
from snellen.study.tasks.pool import Candidate, ChosenItem, Pool, even_shares

T = TypeVar("T", bound="type[Task]")
RunNeed = Literal["labels", "errors"]
"""Labels of the images; images that the model gets right and images that it gets wrong."""

TRIAL_SECONDS = 15
"""Estimated time for a trial with one picture."""
FURTHER_SECONDS = 5
"""Estimated time for every further picture."""

_TEXTS = ("title", "introduction", "maps", "question")


@dataclass(frozen=True, kw_only=True)
class TaskTraits:
    """The facts that a task's decorator states."""

    name: str
    summary: str
    """The first sentence of the docstring."""
    title: str
    """The name of the task in reports."""
    score: str
    """What the score of one answer is, in words."""
    mean: str
    """What a participant's mean score is, in words."""
    unit: str
    """What a difference of one is called, as in `0.5 points`; empty for a share."""
    bounds: tuple[float, float]
    """The smallest and the largest possible score."""
    higher_is_better: bool
    texts: Mapping[str, str]
    """By language, the sentences that participants read, as YAML: title, introduction, maps (added where maps are shown),
    question, and what the form needs besides."""
    needs: frozenset[RunNeed] = frozenset()
    """What the run must have."""
    needs_map: bool = False
    """Whether the question is about the map, so that it cannot be asked of participants without maps."""
    ability: bool = True
    """Whether the score measures what participants can do; otherwise, what they think."""
    binary: bool = False
    """Whether a single score is 0 or 1, so that a participant's mean is a share."""
    images: int = 1
    """Images with maps per item."""
    about_class: bool = False
    """Whether an item is about a class, whose name the question contains."""
    points_at_end: bool = False
    """Whether the last page tells participants the sum of their scores."""
    order: int = 100
    """Tasks of lower order choose their images first. Tasks that few images suit come first."""
    seconds: int = TRIAL_SECONDS
    """Estimated time for a trial with one picture."""


class Task(ABC):
    """What participants do in a trial: which images they see, how they answer, and how an answer is scored.

    A task is registered by the decorator `task` and has at least a `form`, a `truth` and a `score`.
    """

    traits: ClassVar[TaskTraits]
    form: ClassVar[Form]
    feedback_html: ClassVar[str] = ""
    """What is added to the form's feedback after a practice answer, as a Jinja template (see `Form.feedback_html`)."""

    # The truth and the score -----------------------------------------------------------------------------------------------

    @abstractmethod
    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        """The right answer to an item; `accuracy` is the model's accuracy by class, from 0 to 1."""

    @abstractmethod
    def score(self, truth: Float[np.ndarray, "*truths"], answers: AnswerBatch) -> Float[np.ndarray, "people items"]:
        """The score of every answer; `truth` has a value per item, or a row of 0 and 1 per item for further images."""

    def score_answer(self, truth: Truth, answer: Answer) -> float:
        """The score of one answer."""
        chosen = None
        if isinstance(truth, tuple):
            chosen = np.array([[[position in answer.chosen for position in range(len(truth))]]])
        batch = AnswerBatch(
            np.array([[answer.value or 0]]), None if answer.beside is None else np.array([[answer.beside]]), chosen
        )
        return float(self.score(truth_array([truth]), batch)[0, 0])

    def moments(self, ease: Float[np.ndarray, "ways items"], truth: Float[np.ndarray, "*truths"], bets: float) -> Moments:
        """Mean and mean square of the score of simulated participants (see `Form.moments`)."""
        return self.form.moments(self.score, ease, truth, bets)

    # Images ----------------------------------------------------------------------------------------------------------------

    def fits(self, image: Candidate) -> bool:
        """Whether the task can show an image."""
        return image.right is not None or "labels" not in self.traits.needs

    def group(self, image: Candidate) -> Hashable:
        """What the right answer depends on: items are chosen evenly over these groups."""
        return image.right if "errors" in self.traits.needs else None

    def images(self, pool: Pool) -> list[Candidate]:
        """The images of the run that the task can show."""
        return [image for image in pool.explained if self.fits(image)]

    def classes(self, pool: Pool, least: int) -> dict[int, list[Candidate]]:
        """By class, the images that no item of the task has yet; only classes with at least `least` of them."""
        seen = pool.seen(self.traits.name)
        images: dict[int, list[Candidate]] = {}
        for image in self.images(pool):
            if image.sample not in seen:
                images.setdefault(image.class_index, []).append(image)
        return {label: same for label, same in sorted(images.items()) if len(same) >= least}

    def choose(self, pool: Pool, *, practice: bool, items: int) -> None:
        """Adds items to the pool. By default an item is one image, and images are even over groups, classes and confidence.

        Args:
            pool: The images, and the items that were chosen so far.
            practice: Whether the items are for practice.
            items: How many.
        """
        name, seen = self.traits.name, pool.seen(self.traits.name)
        images = [item for item in pool.shuffled(self.images(pool), f"{name}/{practice}") if item.sample not in seen]
        needs = even_shares(items, Counter(self.group(image) for image in images))
        wrong = needs.get(False, 0)
        if "errors" in self.traits.needs and not practice and abs(2 * wrong - items) > 1:
            predictions = Counter(image.right for image in images)
            pool.notes.append(
                f"{name}: the model is wrong in {wrong} of {count(items, 'item')}, because it is wrong on "
                f"{predictions[False]} and right on {predictions[True]} images of the run"
            )
        over = (lambda image: image.class_index, lambda image: image.band)
        for image in pool.pick(images, needs, group=self.group, over=over):
            pool.add(name, practice=practice, images=[image])

    def capacity(self, pool: Pool) -> tuple[int, str]:
        """How many items the images of the run suffice for, and a sentence about what the run has."""
        images = len(self.images(pool))
        return images, f"the run has {count(images, 'image')} for it"

    def class_capacity(self, pool: Pool, least: int) -> tuple[int, str]:
        """The capacity of a task with an item per class, which takes at least `least` images of the class."""
        classes = len(self.classes(pool, least))
        have = "1 class of the run has" if classes == 1 else f"{classes} classes of the run have"
        return classes, f"{have} {least} images or more"

    def notes(self, items: Sequence[ChosenItem]) -> Iterator[str]:
        """What the experimenter should know of the chosen items that are no practice."""
        yield from ()

    def remarks(self, classes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        """What `snellen study check` says of the task; `classes` has accuracy and images of every class asked about."""
        yield from ()


TASKS: Registry[Task] = Registry("task", "truth", "score")


@cache
def find_task(name: str) -> Task:
    """The task of this name."""
    return TASKS.build(name)


def task(
    name: str,
    *,
    title: str,
    score: str,
    mean: str,
    unit: str,
    bounds: tuple[float, float],
    higher_is_better: bool,
    texts: Mapping[str, str],
    needs: set[RunNeed] | frozenset[RunNeed] = frozenset(),
    needs_map: bool = False,
    ability: bool = True,
    binary: bool = False,
    images: int = 1,
    about_class: bool = False,
    points_at_end: bool = False,
    order: int = 100,
    seconds: int = TRIAL_SECONDS,
) -> Callable[[T], T]:
    """Registers a frozen dataclass that derives from `Task`; the arguments are the fields of `TaskTraits`."""

    def register(plugin: T) -> T:
        plugin.traits = TaskTraits(
            name=name,
            summary=_summary(name, plugin),
            title=title,
            score=score,
            mean=mean,
            unit=unit,
            bounds=bounds,
            higher_is_better=higher_is_better,
            texts=texts,
            needs=frozenset(needs),
            needs_map=needs_map,
            ability=ability,
            binary=binary,
            images=images,
            about_class=about_class,
            points_at_end=points_at_end,
            order=order,
            seconds=seconds,
        )
        for language, text in plugin.traits.texts.items():
            sentences = yaml.safe_load(text)
            for sentence in (*_TEXTS, *plugin.form.texts):
                if sentence not in sentences:
                    raise SnellenError(f"the task '{name}' has no text '{sentence}' in '{language}'; add it to its texts")
        TASKS.add(name, plugin)
        find_task.cache_clear()
        return plugin

    return register


def _summary(name: str, plugin: type[Task]) -> str:
    text = plugin.__dict__.get("__doc__") or ""
    if not text.strip() or text.startswith(f"{plugin.__name__}("):  # dataclass writes a signature where none is given
        raise SnellenError(f"the task '{name}' needs a docstring that says in one sentence what participants do")
    return " ".join(text.split("\n\n")[0].split())


def truth_array(truths: Sequence[Truth]) -> Float[np.ndarray, "*truths"]:
    """The truths of several items as numbers; 0 where nothing is right or wrong."""
    return np.array([0.0 if truth is None else truth for truth in truths], dtype=np.float64)


def _registered(name: str) -> str:
    if name not in TASKS:
        raise PydanticCustomError("task", "it must be one of {names}", {"names": ", ".join(TASKS)})
    return name


TaskName = Annotated[str, AfterValidator(_registered)]
"""The name of a registered task, in a file."""
