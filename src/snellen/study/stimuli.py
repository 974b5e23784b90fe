"""What participants are shown: items with their pictures under names that betray nothing, and the truth, kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snellen.study.protocol import TaskName
from snellen.study.tasks import Truth


@dataclass(frozen=True)
class Picture:
    """A picture file of a study, with the size that a page reserves for it."""

    name: str
    width: int
    height: int


@dataclass(frozen=True)
class Item:
    """One thing to judge: an image or some images of one class, as each condition shows them."""

    id: str
    task: TaskName
    practice: bool
    samples: tuple[str, ...]
    """The images that are shown with maps, by their names in the run."""
    said: tuple[str, ...]
    """What the model said of each of them."""
    truth: Truth
    pictures: Mapping[str, tuple[Picture, ...]]
    """By name of the condition, a picture per sample."""
    about: str = ""
    """The class that is asked about."""
    further: tuple[str, ...] = ()
    """The images to choose from."""
    choices: tuple[Picture, ...] = ()
    """Their pictures, without maps."""

    def as_values(self) -> dict[str, Any]:
        """As it stands in `stimuli.json`."""
        return {
            "id": self.id,
            "task": self.task,
            "practice": self.practice,
            "samples": list(self.samples),
            "said": list(self.said),
            "truth": list(self.truth) if isinstance(self.truth, tuple) else self.truth,
            "pictures": {name: [_values(one) for one in some] for name, some in self.pictures.items()},
            "about": self.about,
            "further": list(self.further),
            "choices": [_values(one) for one in self.choices],
        }

    @staticmethod
    def of(values: Mapping[str, Any]) -> Item:
        """From `stimuli.json`."""
        truth = values["truth"]
        return Item(
            values["id"],
            values["task"],
            values["practice"],
            tuple(values["samples"]),
            tuple(values["said"]),
            tuple(truth) if isinstance(truth, list) else truth,
            {name: tuple(Picture(**one) for one in some) for name, some in values["pictures"].items()},
            values["about"],
            tuple(values["further"]),
            tuple(Picture(**one) for one in values["choices"]),
        )


def _values(picture: Picture) -> dict[str, Any]:
    return {"name": picture.name, "width": picture.width, "height": picture.height}
