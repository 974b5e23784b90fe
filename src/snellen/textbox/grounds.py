"""What lies behind the things: black, noise, a colour, a texture, or photographs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, UInt8, UInt64
from torch import Tensor

from snellen.errors import SnellenError, nearest
from snellen.geometry import Geometry
from snellen.samples import from_folder
from snellen.textbox.noise import fractions, hashed, shorts
from snellen.zoo.photographs import photographs

Colour = tuple[int, int, int]
Keys = UInt64[np.ndarray, " scenes"]
Pixels = UInt8[Tensor, "scenes 3 height width"]


@runtime_checkable
class Ground(Protocol):
    """A frozen dataclass; called with the scenes' keys, it draws the ground and the ink upon it."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels: ...


@dataclass(frozen=True)
class Black:
    """Nothing."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        if len(set(colour)) == 1:
            return (ink.to(torch.uint8) * colour[0])[:, None].expand(-1, 3, -1, -1)
        return ink[:, None].to(torch.uint8) * _column(colour)


@dataclass(frozen=True)
class Noise:
    """Every value of every pixel drawn evenly from 0 to `most`."""

    most: int = 150

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 255:
            raise SnellenError(f"noise goes up to a value from 0 to 255, not {self.most}")

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        drawn = shorts(keys, "noise", 3 * side * side).reshape(len(keys), 3, side, side)
        values = (drawn.astype(np.uint32) * np.uint32(self.most + 1) >> np.uint32(16)).astype(np.uint8)
        return _on(torch.from_numpy(values), ink, colour)


@dataclass(frozen=True)
class Plain:
    """One colour per scene, each channel drawn evenly from 0 to `most`."""

    most: int = 150

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        drawn = torch.from_numpy((fractions(keys, "plain", 3) * (self.most + 1)).astype(np.uint8))
        return _on(drawn[:, :, None, None].expand(-1, -1, side, side), ink, colour)


@dataclass(frozen=True)
class Texture:
    """Waves of random direction, length and colour, from 0 to `most`."""

    most: int = 150

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        turn, length, start, *tint = (torch.from_numpy(one).float() for one in fractions(keys, "texture", 6).T)
        place = torch.arange(side, dtype=torch.float32)
        angle = torch.pi * turn[:, None, None]
        across = place[:, None] * angle.sin() + place * angle.cos()
        wave = 0.5 + 0.5 * torch.sin(2 * torch.pi * (across / (4 + 12 * length[:, None, None]) + start[:, None, None]))
        shade = torch.stack(tint, dim=1)[:, :, None, None] * wave[:, None] * self.most
        return _on(shade.round().to(torch.uint8), ink, colour)


@dataclass(frozen=True)
class Photographs:
    """A random piece of a random photograph, mirrored or not, darkened to `brightness`.

    Without a folder, of the photographs that come inside installed packages.
    """

    folder: str | None = None
    brightness: float = 0.7

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        pictures = _pictures(self.folder, side)
        which, top, left, mirrored = hashed(keys, "photograph", 0, 4).T
        ground = torch.empty(len(keys), 3, side, side, dtype=torch.uint8)
        chosen = (which % np.uint64(len(pictures))).astype(np.int64)
        for number in np.unique(chosen):
            rows = np.flatnonzero(chosen == number)
            windows = pictures[number].unfold(1, side, 1).unfold(2, side, 1)  # a view: 3, places down, places across
            down, across = ((one[rows] % np.uint64(windows.shape[1])).astype(np.int64) for one in (top, left))
            ground[rows] = windows[:, down, across].movedim(1, 0)
        turned = torch.from_numpy((mirrored & np.uint64(1)).astype(bool))
        ground[turned] = ground[turned].flip(3)
        return _on((ground.float() * self.brightness).round().to(torch.uint8), ink, colour)


GROUNDS: dict[str, Callable[[], Ground]] = {
    "black": Black,
    "noise": Noise,
    "photos": Photographs,
    "colour": Plain,
    "texture": Texture,
}


def ground(name: str) -> Ground:
    """A ground by its name, or photographs from a folder."""
    if name in GROUNDS:
        return GROUNDS[name]()
    if Path(name).is_dir():
        return Photographs(name)
    hint = nearest(name, GROUNDS) or ";"
    raise SnellenError(f"there is no background '{name}', nor a folder of that name{hint} there are {', '.join(GROUNDS)}")


def _on(ground: Pixels, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
    return torch.where(ink[:, None], _column(colour), ground)


def _column(colour: Colour) -> UInt8[Tensor, "3 1 1"]:
    return torch.tensor(colour, dtype=torch.uint8)[:, None, None]


@lru_cache(maxsize=8)
def _pictures(folder: str | None, side: int) -> UInt8[Tensor, "pictures 3 _ _"]:
    """The middles of photographs, twice as high and wide as a scene, so that a piece shows something."""
    geometry = Geometry(size=(2 * side, 2 * side), crop=1.0)
    found = photographs(geometry) if folder is None else from_folder(folder, geometry=geometry)
    return torch.stack([(255 * one.image).round().to(torch.uint8) for one in found])
