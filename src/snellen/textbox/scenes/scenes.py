"""Scenes: things at random places on a ground. A scene depends on (seed, index) alone; its bucket says what of it is shown.

Every thing has its place in every scene, shown or not, and no two places overlap. So two buckets of the same (seed, index)
differ in what is shown and in nothing else, which is how a classifier's reasoning is proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8, UInt64
from torch import Tensor

from snellen.errors import SnellenError
from snellen.textbox.scenes.backgrounds import Background, BlackBackground
from snellen.textbox.scenes.noise import hashed, keys_of
from snellen.textbox.scenes.objects import OBJECTS, SceneObject, count, states

ATTEMPTS = 200
"""Places are drawn again this often before the things are said not to fit."""


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """Some scenes.

    `ink` says where each thing is drawn, in the order of the layout's things, empty where it is not shown; `boxes` are the
    rectangles (top, left, bottom, right) around them, all 0 where it is not shown.
    """

    pixels: UInt8[Tensor, "scenes 3 height width"]
    ink: Bool[Tensor, "scenes things height width"]
    boxes: Int[Tensor, "scenes things 4"]
    buckets: Int[Tensor, " scenes"]

    def __len__(self) -> int:
        return len(self.buckets)

    def regions(self) -> Bool[Tensor, "scenes things height width"]:
        """The rectangles as masks."""
        down = torch.arange(self.ink.shape[2])[:, None]
        across = torch.arange(self.ink.shape[3])
        top, left, bottom, right = (one[..., None, None] for one in self.boxes.unbind(dim=2))
        return (down >= top) & (down < bottom) & (across >= left) & (across < right)


@dataclass(frozen=True)
class SceneLayout:
    """What scenes look like: their side, what they hold, how bright it is, and what lies behind."""

    side: int = 64
    objects: tuple[SceneObject, ...] = OBJECTS
    colour: tuple[int, int, int] = (255, 255, 255)
    background: Background = field(default_factory=BlackBackground)

    def __post_init__(self) -> None:
        names = [one.name for one in self.objects]
        if not names or len(set(names)) != len(names):
            raise SnellenError("a layout holds at least one thing, and each under a name of its own")
        for one in self.objects:
            if max(one.size) > self.side:
                raise SnellenError(f"'{one.name}' is larger than a scene of {self.side}×{self.side}")
        if any(not 0 <= value <= 255 for value in self.colour):
            raise SnellenError(f"colours are three numbers from 0 to 255, not {self.colour}")

    @property
    def buckets(self) -> int:
        """How many there are."""
        return count(self.objects)

    def scenes(
        self, buckets: Int[Tensor, " scenes"] | Sequence[int], indices: Int[Tensor, " scenes"] | Sequence[int], *, seed: int
    ) -> SceneBatch:
        """Scene number `indices[i]` with the things of bucket `buckets[i]` shown."""
        chosen, places = (np.asarray(one, dtype=np.int64) for one in (buckets, indices))
        if chosen.shape != places.shape or chosen.ndim != 1:
            raise ValueError("one bucket per index is needed")
        if len(chosen) and not 1 <= int(chosen.min()) <= int(chosen.max()) <= self.buckets:
            raise SnellenError(f"buckets are numbered from 1 to {self.buckets}")
        keys = keys_of(seed, places)
        corners = self._corners(keys)
        look = self._states[chosen - 1]
        side, total, objects = self.side, len(chosen), len(self.objects)
        ink = np.zeros((total, objects, side, side), dtype=bool)
        flat = ink.reshape(-1)
        boxes = np.zeros((total, objects, 4), dtype=np.int64)
        for number, object_ in enumerate(self.objects):
            for kind, shape in enumerate(object_.inks, 1):
                rows = np.flatnonzero(look[:, number] == kind)
                top, left = corners[rows, number].T
                down, right = np.nonzero(shape)
                start = ((rows * objects + number) * side + top) * side + left
                flat[(start[:, None] + (down * side + right)).ravel()] = True
                boxes[rows, number] = np.stack([top, left, top + shape.shape[0], left + shape.shape[1]], axis=1)
        drawn = torch.from_numpy(ink.view(np.uint8)).amax(dim=1).view(torch.bool)  # any() takes forty times as long
        pixels = self.background(keys, side, drawn, self.colour)
        return SceneBatch(pixels, torch.from_numpy(ink), torch.from_numpy(boxes), torch.from_numpy(chosen))

    @cached_property
    def _states(self) -> Int[np.ndarray, "buckets things"]:
        return np.array([states(self.objects, bucket) for bucket in range(1, self.buckets + 1)])

    def _corners(self, keys: UInt64[np.ndarray, " scenes"]) -> Int[np.ndarray, "scenes things 2"]:
        """Where each thing stands, drawn evenly among all places in which no two overlap."""
        sizes = np.array([one.size for one in self.objects])
        free = self.side - sizes + 1
        found = np.empty((len(keys), *sizes.shape), dtype=np.int64)
        left = np.arange(len(keys))
        for attempt in range(ATTEMPTS):
            if not len(left):
                return found
            draws = hashed(keys[left], "place", attempt, sizes.size).reshape(-1, *sizes.shape)
            drawn = (draws >> np.uint64(40)).astype(np.int64) * free >> 24
            found[left] = drawn
            clash = np.zeros(len(left), dtype=bool)
            for one, other in combinations(range(len(sizes)), 2):
                apart = (drawn[:, one] >= drawn[:, other] + sizes[other]) | (drawn[:, other] >= drawn[:, one] + sizes[one])
                clash |= ~apart.any(axis=1)
            left = left[clash]
        if len(left):
            names = ", ".join(one.name for one in self.objects)
            raise SnellenError(f"{names} do not fit into {self.side}×{self.side} without overlap; make the scenes larger")
        return found
