"""Backgrounds of scenes: black, noise, a colour, a texture, or photographs."""

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

_CHUNK = 8
"""Backgrounds are drawn in chunks so small that all intermediate values stay in the processor's cache."""


@runtime_checkable
class Background(Protocol):
    """A frozen dataclass; called with the scenes' keys, it draws the background and the ink on it."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels: ...


@dataclass(frozen=True)
class BlackBackground:
    """All pixels 0."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        if len(set(colour)) == 1:
            return (ink.to(torch.uint8) * colour[0])[:, None].expand(-1, 3, -1, -1)
        return ink[:, None].to(torch.uint8) * _column(colour)


@dataclass(frozen=True)
class NoiseBackground:
    """Every value of every pixel drawn uniformly from 0 to `most`."""

    most: int = 150

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 255:
            raise SnellenError(f"noise goes up to a value from 0 to 255, not {self.most}")

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        return _with_ink(_draw_distinct(keys, side, self._draw), ink, colour)

    def _draw(self, keys: Keys, side: int) -> Pixels:
        values = shorts(keys, "noise", 3 * side * side).astype(np.uint32)
        values *= np.uint32(self.most + 1)
        values >>= np.uint32(16)
        return torch.from_numpy(values.astype(np.uint8).reshape(-1, 3, side, side))


@dataclass(frozen=True)
class ColourBackground:
    """One colour per scene, each channel drawn uniformly from 0 to `most`."""

    most: int = 150

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        values = torch.from_numpy((fractions(keys, "plain", 3) * (self.most + 1)).astype(np.uint8))
        return _with_ink(values[:, :, None, None].expand(-1, -1, side, side), ink, colour)


@dataclass(frozen=True)
class TextureBackground:
    """Waves of random direction, length and colour, from 0 to `most`."""

    most: int = 150

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        return _with_ink(_draw_distinct(keys, side, self._draw), ink, colour)

    def _draw(self, keys: Keys, side: int) -> Pixels:
        draws = fractions(keys, "texture", 6).T
        direction, length, phase, *tint = (torch.from_numpy(values).float() for values in draws)
        position = torch.arange(side, dtype=torch.float32)
        angle = torch.pi * direction[:, None, None]
        along = position[:, None] * angle.sin() + position * angle.cos()
        wave = 0.5 + 0.5 * torch.sin(2 * torch.pi * (along / (4 + 12 * length[:, None, None]) + phase[:, None, None]))
        shade = torch.stack(tint, dim=1)[:, :, None, None] * wave[:, None] * self.most
        return shade.round().to(torch.uint8)


@dataclass(frozen=True)
class PhotoBackground:
    """A random crop of a random photograph, mirrored or not, darkened to `brightness`.

    Without a folder, the photographs are those inside installed packages.
    """

    folder: str | None = None
    """None for the photographs inside installed packages."""
    brightness: float = 0.7
    """By which pixels are multiplied."""

    def __call__(self, keys: Keys, side: int, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
        return _with_ink(_draw_distinct(keys, side, self._crop), ink, colour)

    def _crop(self, keys: Keys, side: int) -> Pixels:
        photos = _photographs(self.folder, side, self.brightness)
        which, top, left, mirror = hashed(keys, "photograph", 0, 4).T
        room = np.uint64(photos.shape[-1] - side + 1)
        tops, lefts = ((draws % room).astype(np.int64).tolist() for draws in (top, left))
        mirrored = (mirror & np.uint64(1)).astype(bool).tolist()
        numbers = (which % np.uint64(len(photos))).astype(np.int64).tolist()
        crops = np.empty((len(keys), 3, side, side), dtype=np.uint8)
        for row, (number, y, x, is_mirrored) in enumerate(zip(numbers, tops, lefts, mirrored, strict=True)):
            crop = photos[number, :, y : y + side, x : x + side]
            crops[row] = crop[:, :, ::-1] if is_mirrored else crop
        return torch.from_numpy(crops)


BACKGROUNDS: dict[str, Callable[[], Background]] = {
    "black": BlackBackground,
    "noise": NoiseBackground,
    "photos": PhotoBackground,
    "colour": ColourBackground,
    "texture": TextureBackground,
}


def find_background(name: str) -> Background:
    """A background by its name, or photographs from a folder."""
    if name in BACKGROUNDS:
        return BACKGROUNDS[name]()
    if Path(name).is_dir():
        return PhotoBackground(name)
    hint = nearest(name, BACKGROUNDS) or ";"
    raise SnellenError(
        f"there is no background '{name}', nor a folder of that name{hint} there are {', '.join(BACKGROUNDS)}"
    )


def _draw_distinct(keys: Keys, side: int, draw: Callable[[Keys, int], Pixels]) -> Pixels:
    """One background per key, drawn once for equal keys: training shows each scene in all of its buckets."""
    distinct, positions = np.unique(keys, return_inverse=True)
    pixels = np.empty((len(distinct), 3, side, side), dtype=np.uint8)
    for start in range(0, len(distinct), _CHUNK):
        pixels[start : start + _CHUNK] = draw(distinct[start : start + _CHUNK], side).numpy()
    return torch.from_numpy(pixels[positions])


def _with_ink(background: Pixels, ink: Bool[Tensor, "scenes height width"], colour: Colour) -> Pixels:
    """Draws ink on a background bit by bit, which is five times as fast as torch.where."""
    outside = (ink.to(torch.uint8) - 1)[:, None]  # 255 where there is no ink, 0 where there is
    return (background & outside) | (_column(colour) & ~outside)


def _column(colour: Colour) -> UInt8[Tensor, "3 1 1"]:
    return torch.tensor(colour, dtype=torch.uint8)[:, None, None]


@lru_cache(maxsize=8)
def _photographs(folder: str | None, side: int, brightness: float) -> UInt8[np.ndarray, "photographs 3 _ _"]:
    """The centres of photographs, darkened, twice as high and wide as a scene, so that a crop shows something."""
    geometry = Geometry(size=(2 * side, 2 * side), crop=1.0)
    samples = _packaged_samples(geometry) if folder is None else _folder_samples(folder, side, geometry)
    return np.stack([((255 * sample.image).round() * brightness).round().to(torch.uint8).numpy() for sample in samples])


def _packaged_samples(geometry: Geometry) -> Samples:
    try:
        return photographs(geometry)
    except SnellenError as problem:
        names = ", ".join(photograph.name for photograph in PHOTOGRAPHS)
        raise SnellenError(f"the background 'photos' needs {names}, but {problem}, or give a folder of your own") from None


def _folder_samples(folder: str, side: int, geometry: Geometry) -> Samples:
    try:
        samples = from_folder(folder, geometry=geometry, unreadable="skip")
    except SnellenError as problem:
        raise SnellenError(f"the background '{folder}' cannot be used: {problem}") from None
    if samples.skipped:
        reason = samples.skipped[0][1]
        raise SnellenError(f"the background '{folder}' cannot be used: {reason}; repair it or take it out of the folder")
    for name in samples.ids:
        path = Path(folder) / name
        width, height = size_of(path)
        if min(width, height) < side:
            raise SnellenError(
                f"the background '{path}' has {width}×{height} pixels, fewer than a scene of {side}×{side}; "
                "take it out of the folder"
            )
    return samples
