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
from snellen.images import Samples, from_folder
from snellen.images.decoding import size_of
from snellen.images.geometry import Geometry
from snellen.textbox.scenes.noise import fractions, hashed, shorts
from snellen.zoo.photographs import PHOTOGRAPHS, photographs

Colour = tuple[int, int, int]
Keys = UInt64[np.ndarray, " scenes"]
Pixels = UInt8[Tensor, "scenes 3 height width"]

_AT_ONCE = 8
"""So few grounds are drawn at once that all that they need on the way stays in the processor's cache."""


@runtime_checkable
class Background(Protocol):
    """A frozen dataclass; called with the scenes' keys, it draws the ground and the ink upon it."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels: ...


@dataclass(frozen=True)
class BlackBackground:
    """Nothing."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        if len(set(colour)) == 1:
            return (ink.to(torch.uint8) * colour[0])[:, None].expand(-1, 3, -1, -1)
        return ink[:, None].to(torch.uint8) * _column(colour)


@dataclass(frozen=True)
class NoiseBackground:
    """Every value of every pixel drawn evenly from 0 to `most`."""

    most: int = 150

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 255:
            raise SnellenError(f"noise goes up to a value from 0 to 255, not {self.most}")

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        return _on(_once(keys, side, self._drawn), ink, colour)

    def _drawn(self, keys: Keys, side: int) -> Pixels:
        drawn = shorts(keys, "noise", 3 * side * side).astype(np.uint32)
        drawn *= np.uint32(self.most + 1)
        drawn >>= np.uint32(16)
        return torch.from_numpy(drawn.astype(np.uint8).reshape(-1, 3, side, side))


@dataclass(frozen=True)
class ColourBackground:
    """One colour per scene, each channel drawn evenly from 0 to `most`."""

    most: int = 150

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        drawn = torch.from_numpy((fractions(keys, "plain", 3) * (self.most + 1)).astype(np.uint8))
        return _on(drawn[:, :, None, None].expand(-1, -1, side, side), ink, colour)


@dataclass(frozen=True)
class TextureBackground:
    """Waves of random direction, length and colour, from 0 to `most`."""

    most: int = 150

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        return _on(_once(keys, side, self._drawn), ink, colour)

    def _drawn(self, keys: Keys, side: int) -> Pixels:
        turn, length, start, *tint = (torch.from_numpy(one).float() for one in fractions(keys, "texture", 6).T)
        place = torch.arange(side, dtype=torch.float32)
        angle = torch.pi * turn[:, None, None]
        across = place[:, None] * angle.sin() + place * angle.cos()
        wave = 0.5 + 0.5 * torch.sin(2 * torch.pi * (across / (4 + 12 * length[:, None, None]) + start[:, None, None]))
        shade = torch.stack(tint, dim=1)[:, :, None, None] * wave[:, None] * self.most
        return shade.round().to(torch.uint8)


@dataclass(frozen=True)
class PhotoBackground:
    """A random piece of a random photograph, mirrored or not, darkened to `brightness`.

    Without a folder, of the photographs that come inside installed packages.
    """

    folder: str | None = None
    brightness: float = 0.7

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        return _on(_once(keys, side, self._cut), ink, colour)

    def _cut(self, keys: Keys, side: int) -> Pixels:
        pictures = _pictures(self.folder, side, self.brightness)
        which, top, left, mirrored = hashed(keys, "photograph", 0, 4).T
        room = pictures.shape[-1] - side
        down, across = ((one % np.uint64(room + 1)).astype(np.int64) for one in (top, left))
        turned = (mirrored & np.uint64(1)).astype(bool)
        chosen = (which % np.uint64(len(pictures))).astype(np.int64)
        found = np.empty((len(keys), 3, side, side), dtype=np.uint8)
        pieces = zip(*(one.tolist() for one in (chosen, down, across, turned)), strict=True)
        for row, (number, y, x, turn) in enumerate(pieces):
            piece = pictures[number, :, y : y + side, x : x + side]
            found[row] = piece[:, :, ::-1] if turn else piece
        return torch.from_numpy(found)


BACKGROUNDS: dict[str, Callable[[], Background]] = {
    "black": BlackBackground,
    "noise": NoiseBackground,
    "photos": PhotoBackground,
    "colour": ColourBackground,
    "texture": TextureBackground,
}


def find_background(name: str) -> Background:
    """A ground by its name, or photographs from a folder."""
    if name in BACKGROUNDS:
        return BACKGROUNDS[name]()
    if Path(name).is_dir():
        return PhotoBackground(name)
    hint = nearest(name, BACKGROUNDS) or ";"
    raise SnellenError(
        f"there is no background '{name}', nor a folder of that name{hint} there are {', '.join(BACKGROUNDS)}"
    )


def _once(keys: Keys, side: int, draw: Callable[[Keys, int], Pixels]) -> Pixels:
    """One ground per key, drawn once where keys occur again: training shows each scene in all of its buckets."""
    distinct, where = np.unique(keys, return_inverse=True)
    found = np.empty((len(distinct), 3, side, side), dtype=np.uint8)
    for start in range(0, len(distinct), _AT_ONCE):
        found[start : start + _AT_ONCE] = draw(distinct[start : start + _AT_ONCE], side).numpy()
    return torch.from_numpy(found[where])


def _on(ground: Pixels, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
    """Ink upon a ground, bit by bit: five times as fast as torch.where."""
    outside = (ink.to(torch.uint8) - 1)[:, None]  # 255 where there is no ink, 0 where there is
    return (ground & outside) | (_column(colour) & ~outside)


def _column(colour: Colour) -> UInt8[Tensor, "3 1 1"]:
    return torch.tensor(colour, dtype=torch.uint8)[:, None, None]


@lru_cache(maxsize=8)
def _pictures(folder: str | None, side: int, brightness: float) -> UInt8[np.ndarray, "pictures 3 _ _"]:
    """The middles of photographs, darkened, twice as high and wide as a scene, so that a piece shows something."""
    geometry = Geometry(size=(2 * side, 2 * side), crop=1.0)
    found = _packaged(geometry) if folder is None else _own(folder, side, geometry)
    return np.stack([((255 * one.image).round() * brightness).round().to(torch.uint8).numpy() for one in found])


def _packaged(geometry: Geometry) -> Samples:
    try:
        return photographs(geometry)
    except SnellenError as problem:
        names = ", ".join(one.name for one in PHOTOGRAPHS)
        raise SnellenError(f"the background 'photos' needs {names}, but {problem}, or give a folder of your own") from None


def _own(folder: str, side: int, geometry: Geometry) -> Samples:
    try:
        found = from_folder(folder, geometry=geometry, unreadable="skip")
    except SnellenError as problem:
        raise SnellenError(f"the background '{folder}' cannot be used: {problem}") from None
    if found.skipped:
        reason = found.skipped[0][1]
        raise SnellenError(f"the background '{folder}' cannot be used: {reason}; mend it or take it out of the folder")
    for sample_id in found.ids:
        path = Path(folder) / sample_id
        width, height = size_of(path)
        if min(width, height) < side:
            raise SnellenError(
                f"the background '{path}' has {width}×{height} pixels, fewer than a scene of {side}×{side}; "
                "take it out of the folder"
            )
    return found
