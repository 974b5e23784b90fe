"""Objects of a scene: boxes and letters as small bitmaps, and the buckets, which say which objects are shown together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from snellen.errors import SnellenError

Contents = Mapping[str, str | None]
"""The kind of every object by the object's name; None where it is not shown."""

_A = """
......#......
.....###.....
.....###.....
....##.##....
....##.##....
....##.##....
...##...##...
...##...##...
..##.....##..
..#########..
..#########..
.##.......##.
.##.......##.
##.........##
##.........##
"""

_B = """
###########..
############.
##........###
##.........##
##.........##
##........###
############.
############.
##........###
##.........##
##.........##
##.........##
##........###
############.
###########..
"""


@dataclass(frozen=True)
class SceneObject:
    """An object of one kind or of several, such as a letter that is A or B."""

    name: str
    bitmaps: tuple[str, ...]
    """The bitmap of each kind, in rows of # (ink) and . (none)."""
    kinds: tuple[str, ...]
    """Their names, such as A and B."""

    def __post_init__(self) -> None:
        if not self.bitmaps or len(self.bitmaps) != len(self.kinds):
            raise SnellenError(f"'{self.name}' needs a picture for each of its kinds, and at least one")
        stripped = tuple("\n".join(bitmap.split()) for bitmap in self.bitmaps)  # without indentation
        object.__setattr__(self, "bitmaps", stripped)
        for kind, mask in zip(self.kinds, self.masks, strict=True):
            if not all(edge.any() for edge in (mask[0], mask[-1], mask[:, 0], mask[:, -1])):
                raise SnellenError(f"the picture of '{self.name}' as {kind} has an empty margin; trim it")

    @property
    def masks(self) -> tuple[Bool[np.ndarray, "_ _"], ...]:
        """Where the bitmap of each kind has ink."""
        masks = []
        for bitmap in self.bitmaps:
            rows = bitmap.split()
            if len({len(row) for row in rows}) != 1 or set("".join(rows)) - set("#."):
                raise SnellenError(f"the picture of '{self.name}' must be rows of # and ., all of one length")
            masks.append(np.array([[pixel == "#" for pixel in row] for row in rows]))
        return tuple(masks)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width that hold every kind."""
        return max(mask.shape[0] for mask in self.masks), max(mask.shape[1] for mask in self.masks)


def box(name: str, height: int, width: int | None = None) -> SceneObject:
    """A filled rectangle; a square if only its height is given."""
    return SceneObject(name, ("\n".join(["#" * (width or height)] * height),), (name,))


TEXT = SceneObject("text", (_A.strip(), _B.strip()), ("A", "B"))
BOX1, BOX2 = box("box1", 10), box("box2", 4)
OBJECTS = (TEXT, BOX2, BOX1)
"""The objects of the published scenes, in the order in which their buckets are counted: the first changes fastest."""


def bucket_contents(objects: Sequence[SceneObject]) -> Iterator[dict[str, str | None]]:
    """What each bucket shows, in the order of the buckets' numbers; the first shows nothing.

    >>> list(bucket_contents(OBJECTS))[5]
    {'text': 'B', 'box2': 'box2', 'box1': None}
    """
    for bucket in range(1, bucket_count(objects) + 1):
        states = bucket_states(objects, bucket)
        yield {item.name: (None, *item.kinds)[state] for item, state in zip(objects, states, strict=True)}


def bucket_states(objects: Sequence[SceneObject], bucket: int) -> tuple[int, ...]:
    """The kind of each object that a bucket shows, counted from 1; 0 where the object is not shown."""
    if not 1 <= bucket <= bucket_count(objects):
        raise SnellenError(f"buckets are numbered from 1 to {bucket_count(objects)}, so there is none with number {bucket}")
    rest, states = bucket - 1, []
    for item in objects:
        rest, state = divmod(rest, len(item.bitmaps) + 1)
        states.append(state)
    return tuple(states)


def bucket_number(objects: Sequence[SceneObject], contents: Contents) -> int:
    """The number of the bucket that shows just this.

    >>> bucket_number(OBJECTS, {"text": "B", "box2": "box2", "box1": None})
    6
    """
    number, step = 1, 1
    for item in objects:
        number += step * (None, *item.kinds).index(contents[item.name])
        step *= len(item.bitmaps) + 1
    return number


def describe(objects: Sequence[SceneObject], contents: Contents) -> str:
    """What is shown, in words.

    >>> describe(OBJECTS, {"text": "B", "box2": "box2", "box1": None})
    'text B, box2'
    """
    visible = [item for item in objects if contents[item.name] is not None]
    names = (item.name if len(item.kinds) == 1 else f"{item.name} {contents[item.name]}" for item in visible)
    return ", ".join(names) or "nothing"


def bucket_descriptions(objects: Sequence[SceneObject]) -> dict[int, str]:
    """What each bucket shows, in words, by the bucket's number."""
    return {number: describe(objects, contents) for number, contents in enumerate(bucket_contents(objects), 1)}


def bucket_count(objects: Sequence[SceneObject]) -> int:
    """How many buckets there are."""
    return math.prod(len(item.bitmaps) + 1 for item in objects)
