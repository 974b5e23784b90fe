"""The items of a study (`stimuli.json`), with their truth and the files of their pictures, whose names are random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from snellen.files.documents import EXACT, OPEN, PlainName
from snellen.study.protocol import StudyCondition
from snellen.study.tasks import TaskName, Truth, find_task

Count = Annotated[int, Field(ge=0)]
Side = Annotated[int, Field(ge=1, le=100_000)]


@with_config(OPEN)
class ChosenRow(TypedDict):
    """How many images of one task were chosen, of which kinds; see `ItemChoice.table`."""

    task: TaskName
    practice: bool
    items: Count
    images: Count
    classes: Count
    right: Count
    wrong: Count
    low: Count
    middle: Count
    high: Count


class ClassRow(TypedDict):
    """A class that an item is about: the model's accuracy on it, over so many images."""

    accuracy: float
    images: Count


@with_config(OPEN)
class Subject(TypedDict):
    """The run that a study was made from, and how its images were chosen."""

    run: str
    model: str
    fingerprint: str
    digest: str
    images: Count
    chosen: NotRequired[list[ChosenRow]]
    notes: NotRequired[list[str]]
    classes: NotRequired[dict[str, ClassRow]]


@dataclass(frozen=True)
class Picture:
    """A picture file of a study, with the size that a page reserves for it."""

    __pydantic_config__ = EXACT

    name: PlainName
    """Of the file, which is random."""
    width: Side
    height: Side
    """Pixels."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing to judge: an image, or several images of one class, with a picture per condition."""

    __pydantic_config__ = EXACT

    id: str
    task: TaskName
    practice: bool
    """Whether its answers do not count."""
    samples: tuple[str, ...]
    """Names, in the run, of the images that are shown with maps."""
    predictions: Annotated[tuple[str, ...], Field(alias="said")]
    """The class that the model predicts for each of them."""
    truth: Truth
    """The right answer."""
    pictures: Mapping[str, tuple[Picture, ...]]
    """By name of the condition, a picture of every sample."""
    about: str = ""
    """The class that the question is about."""
    further: tuple[str, ...] = ()
    """Names of the images to choose from."""
    choices: tuple[Picture, ...] = ()
    """Their pictures, without maps."""

    def as_values(self) -> dict[str, Any]:
        """As stored in `stimuli.json`."""
        return {
            "id": self.id,
            "task": self.task,
            "practice": self.practice,
            "samples": list(self.samples),
            "said": list(self.predictions),
            "truth": list(self.truth) if isinstance(self.truth, tuple) else self.truth,
            "pictures": {name: list(map(_values, pictures)) for name, pictures in self.pictures.items()},
            "about": self.about,
            "further": list(self.further),
            "choices": [_values(choice) for choice in self.choices],
        }

    @property
    def all_pictures(self) -> tuple[Picture, ...]:
        """The pictures of all conditions and those to choose from."""
        return (*(picture for pictures in self.pictures.values() for picture in pictures), *self.choices)

    def problems(self, conditions: tuple[StudyCondition, ...]) -> Iterator[str]:
        """Why the item cannot be used, a sentence each."""
        for condition in conditions:
            if condition.name not in self.pictures:
                yield f"has no pictures for '{condition.name}'"
        if not self.samples or {len(self.predictions), *map(len, self.pictures.values())} != {len(self.samples)}:
            yield "needs a prediction and a picture of every sample under every condition"
        if len(self.choices) != len(self.further):
            yield "needs a picture of every image to choose from"
        yield from find_task(self.task).form.truth_problems(self.truth, len(self.choices))


@dataclass(frozen=True)
class Stimuli:
    """What `stimuli.json` holds."""

    __pydantic_config__ = EXACT

    schema: int
    subject: Subject
    items: tuple[Item, ...]


def _values(picture: Picture) -> dict[str, Any]:
    return {"name": picture.name, "width": picture.width, "height": picture.height}
