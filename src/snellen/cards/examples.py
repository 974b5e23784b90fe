"""The example pictures of cards: the same photographs for every method; the page holds each picture once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snellen.report.photographs import photographs_of
from snellen.report.readable import Readable
from snellen.runs.record import MethodSpec

SHOWN = 3
"""Number of photographs on a card: one beside its title, the others at its end."""


@dataclass(frozen=True)
class ExamplePicture:
    """A picture of the page, which holds each once."""

    name: str
    """Its CSS class."""
    uri: str
    """The picture as a data URI."""
    words: str
    """The description for screen readers."""


@dataclass(frozen=True)
class Example:
    """A photograph with a method's map of it."""

    caption: str
    signed: bool
    """Whether the map is drawn in two colours."""
    pictures: tuple[ExamplePicture, ...]
    """Photograph, map, and map over the photograph, without those that are missing."""

    @property
    def map(self) -> ExamplePicture | None:
        """The map over the photograph, or alone; none where the run has none yet."""
        last = self.pictures[-1] if self.pictures else None
        return last if last is not None and not last.name.startswith("photo") else None


def examples_of(run: Readable, methods: Sequence[MethodSpec]) -> dict[str, tuple[Example, ...]]:
    """By label of a method, its maps of the run's first photographs."""
    by_method: dict[str, list[Example]] = {method.label: [] for method in methods}
    for row, photo in enumerate(photographs_of(run, run.samples().head(SHOWN), methods)):
        # Of independent labels, the map's own label stands there, which the model need not predict.
        says = "for the label" if run.record.classifier.labels_may_be_several else "the model says"
        caption = f"{says} {photo.prediction}" if photo.prediction else photo.id
        probability = f" (probability {photo.probability})" if photo.prediction and photo.probability else ""
        photograph = ExamplePicture(f"photo-{row}", photo.photo, f"photograph {photo.id}") if photo.photo else None
        for number, tile in enumerate(photo.tiles):
            candidates = (
                photograph,
                ExamplePicture(f"map-{row}-{number}", tile.map, f"map of {tile.name}") if tile.map else None,
                ExamplePicture(f"over-{row}-{number}", tile.over, f"map of {tile.name} over the photograph")
                if tile.over
                else None,
            )
            by_method[tile.name].append(
                Example(
                    f"{caption}{probability}",
                    tile.signed,
                    tuple(picture for picture in candidates if picture is not None),
                )
            )
    return {label: tuple(group) for label, group in by_method.items()}


def style(examples: Mapping[str, Sequence[Example]]) -> str:
    """The CSS rules of the pictures."""
    pictures = {picture.name: picture for group in examples.values() for example in group for picture in example.pictures}
    return "".join(f".{picture.name}{{background-image:url({picture.uri})}}\n" for picture in pictures.values())
