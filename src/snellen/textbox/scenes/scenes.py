"""Scenes: objects at random places on a background. A scene depends on (seed, index) alone; its bucket says what it shows.

Every object has its place in every scene, shown or not, and no two places overlap. So two buckets of the same (seed, index)
differ in what is shown and in nothing else, which is how it is verified that a classifier follows its rule.
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
from snellen.textbox.scenes.objects import OBJECTS, SceneObject, bucket_count, bucket_states

SIDE = 64
"""Height and width of the published scenes in pixels."""

WHITE = (255, 255, 255)

ATTEMPTS = 200
"""How often places are drawn before an error says that the objects do not fit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SceneBatch:
    """Some scenes. Objects are in the order of the layout's."""

    pixels: UInt8[Tensor, "scenes 3 height width"]
    ink: Bool[Tensor, "scenes objects height width"]
    """Where each object is drawn; empty where it is not shown."""
    boxes: Int[Tensor, "scenes objects 4"]
    """Top, left, bottom and right of the rectangle around each object; all 0 where it is not shown."""
    buckets: Int[Tensor, " scenes"]
    """Their numbers, from 1."""

    def __len__(self) -> int:
        return len(self.buckets)

    def regions(self) -> Bool[Tensor, "scenes objects height width"]:
        """The rectangles as masks."""
        y = torch.arange(self.ink.shape[2])[:, None]
        x = torch.arange(self.ink.shape[3])
        top, left, bottom, right = (edge[..., None, None] for edge in self.boxes.unbind(dim=2))
        return (y >= top) & (y < bottom) & (x >= left) & (x < right)


@dataclass(frozen=True)
class SceneLayout:
    """What scenes look like."""

    side: int = SIDE
    """Height and width in pixels."""
    objects: tuple[SceneObject, ...] = OBJECTS
    colour: tuple[int, int, int] = WHITE
    """Of the objects."""
    background: Background = field(default_factory=BlackBackground)

    def __post_init__(self) -> None:
        names = [item.name for item in self.objects]
        if not names or len(set(names)) != len(names):
            raise SnellenError("a layout holds at least one object, and each under a name of its own")
        for item in self.objects:
            if max(item.size) > self.side:
                raise SnellenError(f"'{item.name}' is larger than a scene of {self.side}×{self.side}")
        if any(not 0 <= value <= 255 for value in self.colour):
            raise SnellenError(f"colours are three numbers from 0 to 255, not {self.colour}")

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return bucket_count(self.objects)

    def scenes(
        self, buckets: Int[Tensor, " scenes"] | Sequence[int], indices: Int[Tensor, " scenes"] | Sequence[int], *, seed: int
    ) -> SceneBatch:
        """Draws the scenes of numbers `indices`, each with the objects of its bucket shown."""
        numbers, scene_indices = (np.asarray(values, dtype=np.int64) for values in (buckets, indices))
        if numbers.shape != scene_indices.shape or numbers.ndim != 1:
            raise ValueError("one bucket per index is needed")
        if len(numbers) and not 1 <= int(numbers.min()) <= int(numbers.max()) <= self.buckets:
            raise SnellenError(f"buckets are numbered from 1 to {self.buckets}")
        keys = keys_of(seed, scene_indices)
        corners = self._corners(keys)
        states = self._states[numbers - 1]
        side, total, objects = self.side, len(numbers), len(self.objects)
        ink = np.zeros((total, objects, side, side), dtype=bool)
        flat = ink.reshape(-1)
        boxes = np.zeros((total, objects, 4), dtype=np.int64)
        for number, item in enumerate(self.objects):
            for kind, mask in enumerate(item.masks, 1):
                rows = np.flatnonzero(states[:, number] == kind)
                top, left = corners[rows, number].T
                y, x = np.nonzero(mask)
                start = ((rows * objects + number) * side + top) * side + left
                flat[(start[:, None] + (y * side + x)).ravel()] = True
                boxes[rows, number] = np.stack([top, left, top + mask.shape[0], left + mask.shape[1]], axis=1)
        any_ink = torch.from_numpy(ink.view(np.uint8)).amax(dim=1).view(torch.bool)  # any() takes forty times as long
        return SceneBatch(
            pixels=self.background(keys, side, any_ink, self.colour),
            ink=torch.from_numpy(ink),
            boxes=torch.from_numpy(boxes),
            buckets=torch.from_numpy(numbers),
        )

    @cached_property
    def _states(self) -> Int[np.ndarray, "buckets objects"]:
        return np.array([bucket_states(self.objects, bucket) for bucket in range(1, self.buckets + 1)])

    def _corners(self, keys: UInt64[np.ndarray, " scenes"]) -> Int[np.ndarray, "scenes objects 2"]:
        """Top and left of each object, drawn uniformly among all places in which no two objects overlap."""
        sizes = np.array([item.size for item in self.objects])
        free = self.side - sizes + 1
        corners = np.empty((len(keys), *sizes.shape), dtype=np.int64)
        remaining = np.arange(len(keys))
        for attempt in range(ATTEMPTS):
            if not len(remaining):
                return corners
            draws = hashed(keys[remaining], "place", attempt, sizes.size).reshape(-1, *sizes.shape)
            places = (draws >> np.uint64(40)).astype(np.int64) * free >> 24
            corners[remaining] = places
            overlap = np.zeros(len(remaining), dtype=bool)
            for first, second in combinations(range(len(sizes)), 2):
                apart = (places[:, first] >= places[:, second] + sizes[second]) | (
                    places[:, second] >= places[:, first] + sizes[first]
                )
                overlap |= ~apart.any(axis=1)
            remaining = remaining[overlap]
        if len(remaining):
            names = ", ".join(item.name for item in self.objects)
            raise SnellenError(f"{names} do not fit into {self.side}×{self.side} without overlap; make the scenes larger")
        return corners
