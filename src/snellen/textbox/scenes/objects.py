"""What a scene may hold: boxes and letters as small bitmaps of our own, and the buckets of what is shown together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from snellen.errors import SnellenError

Shown = Mapping[str, str | None]
"""The kind of every thing, None where it is not there."""

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
    """A kind of thing, or several kinds of it, each a picture in rows of # (ink) and . (none)."""

    name: str
    looks: tuple[str, ...]
    kinds: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.looks or len(self.looks) != len(self.kinds):
            raise SnellenError(f"'{self.name}' needs a picture for each of its kinds, and at least one")
        object.__setattr__(self, "looks", tuple("\n".join(look.split()) for look in self.looks))  # however it was typed
        for kind, ink in zip(self.kinds, self.inks, strict=True):
            if not all(edge.any() for edge in (ink[0], ink[-1], ink[:, 0], ink[:, -1])):
                raise SnellenError(f"the picture of '{self.name}' as {kind} has an empty margin; trim it")

    @property
    def inks(self) -> tuple[Bool[np.ndarray, "_ _"], ...]:
        """Where each look has ink."""
        found = []
        for look in self.looks:
            rows = look.split()
            if len({len(row) for row in rows}) != 1 or set("".join(rows)) - set("#."):
                raise SnellenError(f"the picture of '{self.name}' must be rows of # and ., all of one length")
            found.append(np.array([[mark == "#" for mark in row] for row in rows]))
        return tuple(found)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width that hold every kind."""
        return max(ink.shape[0] for ink in self.inks), max(ink.shape[1] for ink in self.inks)


def box(name: str, height: int, width: int | None = None) -> SceneObject:
    """A full rectangle; a square if only its height is given."""
    return SceneObject(name, ("\n".join(["#" * (width or height)] * height),), (name,))


TEXT = SceneObject("text", (_A.strip(), _B.strip()), ("A", "B"))
BOX1, BOX2 = box("box1", 10), box("box2", 4)
OBJECTS = (TEXT, BOX2, BOX1)
"""What the published scenes hold, in the order in which their buckets are counted: the first changes fastest."""


def buckets(objects: Sequence[SceneObject]) -> Iterator[dict[str, str | None]]:
    """All that can be shown together, in the order of the buckets' numbers; the first shows nothing.

    >>> list(buckets(THINGS))[5]
    {'text': 'B', 'box2': 'box2', 'box1': None}
    """
    for bucket in range(1, count(objects) + 1):
        shown = zip(objects, states(objects, bucket), strict=True)
        yield {one.name: (None, *one.kinds)[state] for one, state in shown}


def states(objects: Sequence[SceneObject], bucket: int) -> tuple[int, ...]:
    """Which look of each thing a bucket shows, counted from 1; 0 where the thing is not there."""
    if not 1 <= bucket <= count(objects):
        raise SnellenError(f"buckets are numbered from 1 to {count(objects)}, so there is none with number {bucket}")
    rest, found = bucket - 1, []
    for one in objects:
        rest, state = divmod(rest, len(one.looks) + 1)
        found.append(state)
    return tuple(found)


def bucket_of(objects: Sequence[SceneObject], shown: Shown) -> int:
    """The number of the bucket that shows just this.

    >>> bucket_of(THINGS, {"text": "B", "box2": "box2", "box1": None})
    6
    """
    number, step = 1, 1
    for one in objects:
        number += step * (None, *one.kinds).index(shown[one.name])
        step *= len(one.looks) + 1
    return number


def described(objects: Sequence[SceneObject], shown: Shown) -> str:
    """What is shown, in words.

    >>> described(THINGS, {"text": "B", "box2": "box2", "box1": None})
    'text B, box2'
    """
    there = [one for one in objects if shown[one.name] is not None]
    return ", ".join(one.name if len(one.kinds) == 1 else f"{one.name} {shown[one.name]}" for one in there) or "nothing"


def count(objects: Sequence[SceneObject]) -> int:
    """How many buckets there are."""
    return math.prod(len(one.looks) + 1 for one in objects)
