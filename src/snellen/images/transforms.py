"""Transforms: geometric and photometric augmentations of images, and their inverse for maps (those of COSE).

The operations and ranges are those of TrivialAugment (Müller and Hutter 2021) without unnatural ones, as in Daroya et al.
2023: 30 magnitudes in either direction for signed operations, nearest interpolation, black outside of the image. Photometric
operations work on 8-bit levels and give the same levels as the Python Imaging Library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.types import Images, Maps, Rng

if TYPE_CHECKING:
    from snellen.classifier import Classifier

Levels = Float[Tensor, "batch channels height width"]
"""Whole numbers from 0 to 255."""
Masks = Bool[Tensor, "batch height width"]
Steps = Int[Tensor, " batch"]
"""A signed magnitude per image, from -30 to 30; operations without magnitude ignore it."""

Kind = Literal["geometric", "photometric"]

STEPS = 30
"""Magnitudes in either direction: TrivialAugment's 31 bins without the first, which changes nothing."""

FARTHEST = (32, 224)
"""The longest translation: 32 pixels of a side of 224, and the same share of other sides."""
WIDEST = 135.0
"""The widest rotation in degrees."""
STRONGEST = 0.99
"""Largest distance from 1 of the factor for brightness, colour, contrast and sharpness."""


@dataclass(frozen=True)
class Transform:
    """An operation on images; a geometric one moves pixels, a photometric one changes their values."""

    name: str
    """Such as "rotate"."""
    kind: Kind
    """Whether it moves pixels or changes their values."""
    signed: bool
    """Whether it has a signed magnitude; a flip, for example, has none."""

    def __call__(self, classifier: Classifier, inputs: Images, steps: Steps) -> Images:
        """The transformed inputs."""
        if self.kind == "geometric":
            black = classifier.to_inputs(torch.zeros_like(inputs[:1, :, :1, :1]))
            return move_pixels(inputs, _GEOMETRIC[self.name](_size(inputs), steps), black)
        levels = (classifier.to_pixels(inputs).clamp(0, 1) * 255).round()
        return classifier.to_inputs(_PHOTOMETRIC[self.name](levels, steps) / 255)

    def undo(self, maps: Maps, steps: Steps) -> tuple[Maps, Masks | None]:
        """Maps of transformed images, moved back to the positions in the original, and the pixels that have a counterpart.

        The pixels are found by transforming an image of ones and moving it back. There is no mask for photometric
        transforms and flips, where no pixel leaves the image.
        """
        if self.kind == "photometric":
            return maps, None
        index = _GEOMETRIC[self.name](_size(maps), steps)
        if not self.signed:  # a flip is its own inverse
            return move_pixels(maps.unsqueeze(1), index, torch.zeros(1).to(maps)).squeeze(1), None
        ones = move_pixels(torch.ones_like(maps, dtype=torch.float64).unsqueeze(1), index, torch.zeros(1).double()).squeeze(
            1
        )
        if self.name == "rotate":
            back, visible = (_rotate_back(values.double(), _degrees(steps)) for values in (maps, ones))
        else:  # whole pixels move, so the inverse is a translation too
            index = _GEOMETRIC[self.name](_size(maps), -steps)
            back, visible = (
                move_pixels(values.double().unsqueeze(1), index, torch.zeros(1).double()).squeeze(1)
                for values in (maps, ones)
            )
        return back.to(maps.dtype), visible > 1e-6  # smaller values are rounding


TRANSFORMS = (
    Transform("translate-x", "geometric", signed=True),
    Transform("translate-y", "geometric", signed=True),
    Transform("rotate", "geometric", signed=True),
    Transform("flip-lr", "geometric", signed=False),
    Transform("flip-ud", "geometric", signed=False),
    Transform("brightness", "photometric", signed=True),
    Transform("color", "photometric", signed=True),
    Transform("contrast", "photometric", signed=True),
    Transform("sharpness", "photometric", signed=True),
    Transform("autocontrast", "photometric", signed=False),
    Transform("equalize", "photometric", signed=False),
    Transform("blur", "photometric", signed=False),
    Transform("smooth", "photometric", signed=False),
)
"""Positive magnitudes go right, down, counter-clockwise, or towards more of what the name says."""


@dataclass(frozen=True)
class Augmentation:
    """A transform, and for a signed one which of its drawn magnitudes is used."""

    transform: Transform
    """The operation."""
    draw: int
    """Which of the drawn magnitudes is used, counted from 0."""

    @property
    def name(self) -> str:
        """Such as `geometric/rotate/3`, or `geometric/flip-lr` for a transform without magnitude."""
        return f"{self.transform.kind}/{self.transform.name}" + (f"/{self.draw}" if self.transform.signed else "")

    def steps(self, draws: int, *, rng: Rng) -> Steps:
        """The magnitude for each sample, out of `draws` different ones."""
        if not self.transform.signed:
            return torch.zeros(len(rng), dtype=torch.long)
        return draw_magnitudes(self.transform, draws, rng=rng)[:, self.draw]


def augmentations(kind: Kind, draws: int) -> tuple[Augmentation, ...]:
    """All augmentations of one kind, in the order of `TRANSFORMS`; with 6 draws 20 geometric and 28 photometric ones."""
    return tuple(
        Augmentation(transform, draw)
        for transform in TRANSFORMS
        if transform.kind == kind
        for draw in range(draws if transform.signed else 1)
    )


def draw_magnitudes(transform: Transform, draws: int, *, rng: Rng) -> Int[Tensor, "batch draws"]:
    """Different signed magnitudes for each sample, out of the 60 that are not 0; the same for every method.

    >>> sorted(draw_magnitudes(TRANSFORMS[2], 60, rng=Rng(0, ("a",)))[0].tolist())[:3]
    [-30, -29, -28]
    """
    random_keys = rng.child("transforms").uniform(transform.name, (2 * STEPS,))
    steps = torch.cat([torch.arange(-STEPS, 0), torch.arange(1, STEPS + 1)])
    return steps[random_keys.argsort(dim=1, stable=True)[:, :draws]]


# Geometric operations -----------------------------------------------------------------------------------------------

Index = Int[Tensor, "batch height width"]
"""For each pixel the number of the pixel that it is read from, counted row by row; -1 for outside of the image."""


def _size(images: Tensor) -> tuple[int, int]:
    return int(images.shape[-2]), int(images.shape[-1])


def _grid(size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    return torch.arange(size[0]).view(1, -1, 1), torch.arange(size[1]).view(1, 1, -1)


def _index(rows: Tensor, columns: Tensor, size: tuple[int, int]) -> Index:
    inside = (rows >= 0) & (rows < size[0]) & (columns >= 0) & (columns < size[1])
    return torch.where(inside, rows * size[1] + columns, -1)


def move_pixels(images: Images, index: Index, outside: Tensor) -> Images:
    """Images whose pixels are read from the positions in `index`; `outside` is the value of pixels outside of the image."""
    flat = index.flatten(1).unsqueeze(1)
    pixels = images.flatten(2).gather(2, flat.clamp_min(0).expand(-1, images.shape[1], -1)).view_as(images)
    return torch.where(index.unsqueeze(1) < 0, outside, pixels)


def _shift(steps: Steps, side: int) -> Int[Tensor, " batch"]:
    """Whole pixels, truncated as in TrivialAugment; at least one, so that small images move too."""
    pixels = steps.abs() * side * FARTHEST[0] // (FARTHEST[1] * STEPS)
    return steps.sign() * pixels.clamp_min(1)


def _translate_x(size: tuple[int, int], steps: Steps) -> Index:
    rows, columns = _grid(size)
    return _index(rows.expand(len(steps), *size), columns - _shift(steps, size[1]).view(-1, 1, 1), size)


def _translate_y(size: tuple[int, int], steps: Steps) -> Index:
    rows, columns = _grid(size)
    return _index(rows - _shift(steps, size[0]).view(-1, 1, 1), columns.expand(len(steps), *size), size)


def _flip_lr(size: tuple[int, int], steps: Steps) -> Index:
    rows, columns = _grid(size)
    return _index(rows, columns.flip(2), size).expand(len(steps), *size)


def _flip_ud(size: tuple[int, int], steps: Steps) -> Index:
    rows, columns = _grid(size)
    return _index(rows.flip(1), columns, size).expand(len(steps), *size)


def _degrees(steps: Steps) -> Float[Tensor, " batch"]:
    return steps.double() * (WIDEST / STEPS)


def _rotate(size: tuple[int, int], steps: Steps) -> Index:
    return rotation_index(size, _degrees(steps))


def rotation_index(size: tuple[int, int], degrees: Float[Tensor, " batch"]) -> Index:
    """The index of images rotated counter-clockwise about their centre, nearest neighbour.

    It uses the fixed-point arithmetic of the Python Imaging Library, with 16 fractional bits.
    """
    rows, columns = _grid(size)
    middle_row, middle_column = size[0] / 2, size[1] / 2
    places = []
    for angle in degrees.tolist():
        cos, sin = (round(of(math.radians(angle)), 15) for of in (math.cos, math.sin))
        across = (cos, -sin, middle_column - cos * middle_column + sin * middle_row)
        down = (sin, cos, middle_row - sin * middle_column - cos * middle_row)
        x, y = ((_fixed(a) * columns + _fixed(b) * rows + _fixed(c + a * 0.5 + b * 0.5)) >> 16 for a, b, c in (across, down))
        places.append(_index(y, x, size))
    return torch.cat(places)


def _fixed(value: float) -> int:
    return math.floor(value * 65536.0 + 0.5)


def _rotate_back(maps: Maps, degrees: Float[Tensor, " batch"]) -> Maps:
    """Maps rotated clockwise about their centre with linear interpolation; 0 outside."""
    height, width = _size(maps)
    angle = torch.deg2rad(degrees).view(-1, 1, 1)
    rows, columns = (torch.arange(side).double() - (side - 1) / 2 for side in (height, width))
    down, across = rows.view(1, -1, 1), columns.view(1, 1, -1)
    x = angle.cos() * across + angle.sin() * down
    y = angle.cos() * down - angle.sin() * across
    # A side of one pixel would divide by zero.
    places = torch.stack([x * 2 / max(1, width - 1), y * 2 / max(1, height - 1)], dim=-1)
    rotated: Tensor = functional.grid_sample(
        maps.unsqueeze(1), places, mode="bilinear", padding_mode="zeros", align_corners=True
    ).squeeze(1)
    return rotated


_GEOMETRIC: dict[str, Callable[[tuple[int, int], Steps], Index]] = {
    "translate-x": _translate_x,
    "translate-y": _translate_y,
    "rotate": _rotate,
    "flip-lr": _flip_lr,
    "flip-ud": _flip_ud,
}

# Photometric operations ---------------------------------------------------------------------------------------------


def _grey(levels: Levels) -> Float[Tensor, "batch 1 height width"]:
    """Luma (ITU-R 601-2) in whole numbers; greyscale images stay as they are."""
    if levels.shape[1] != 3:
        return levels
    red, green, blue = levels.long().unbind(1)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).to(levels.dtype).unsqueeze(1)


def _blend(plain: Float[Tensor, "batch _channels _height _width"], levels: Levels, steps: Steps) -> Levels:
    """A blend of a plain image (factor 0) and the image itself (factor 1), with factors up to 2; truncated, not rounded."""
    factor = (1 + steps.double() * (STRONGEST / STEPS)).to(levels.dtype).view(-1, 1, 1, 1)
    return (plain + factor * (levels - plain)).clamp(0, 255).trunc()


def _brightness(levels: Levels, steps: Steps) -> Levels:
    return _blend(torch.zeros_like(levels), levels, steps)


def _color(levels: Levels, steps: Steps) -> Levels:
    return _blend(_grey(levels), levels, steps)


def _contrast(levels: Levels, steps: Steps) -> Levels:
    mean = _grey(levels).double().mean(dim=(1, 2, 3), keepdim=True)
    return _blend((mean + 0.5).floor().to(levels.dtype), levels, steps)


def _sharpness(levels: Levels, steps: Steps) -> Levels:
    return _blend(_smooth(levels, steps), levels, steps)


def _smooth(levels: Levels, steps: Steps) -> Levels:
    """Mean of 3×3 pixels, in which the middle one counts five times."""
    return _filter(levels, 1, lambda whole: (_box(whole, 1) + 4 * whole[:, :, 1:-1, 1:-1]) / 13)


def _blur(levels: Levels, steps: Steps) -> Levels:
    """Mean of the sixteen pixels on the edge of a 5×5 square."""
    return _filter(levels, 2, lambda whole: (_box(whole, 2) - _box(whole[:, :, 1:-1, 1:-1], 1)) / 16)


def _box(levels: Tensor, reach: int) -> Tensor:
    return functional.avg_pool2d(levels, 2 * reach + 1, stride=1, divisor_override=1)


def _filter(levels: Levels, reach: int, apply: Callable[[Tensor], Tensor]) -> Levels:
    """The filtered image, rounded; its border, and images smaller than the window, stay as they are."""
    if min(_size(levels)) < 2 * reach + 1:
        return levels
    out = levels.clone()
    out[:, :, reach:-reach, reach:-reach] = (apply(levels.double()) + 0.5).floor().to(levels.dtype)
    return out


def _autocontrast(levels: Levels, steps: Steps) -> Levels:
    """Each channel stretched from its darkest and brightest level to black and white."""
    low, high = (of(dim=(2, 3), keepdim=True).double() for of in (levels.amin, levels.amax))
    scale = torch.full_like(low, 255.0) / (high - low)  # dividing a number by a tensor would round twice
    stretched = (levels.double() * scale - low * scale).trunc().clamp(0, 255)
    return torch.where(high > low, stretched.to(levels.dtype), levels)


def _equalize(levels: Levels, steps: Steps) -> Levels:
    """Histogram equalisation of each channel."""
    flat = levels.long().flatten(2)
    counts = torch.zeros(*flat.shape[:2], 256, dtype=torch.long).scatter_add_(2, flat, torch.ones_like(flat))
    last = counts.gather(2, flat.amax(dim=2, keepdim=True))
    step_size = (flat.shape[2] - last) // 255
    before = counts.cumsum(dim=2) - counts + step_size // 2
    table = (before // step_size.clamp_min(1)).clamp(0, 255)
    return torch.where(step_size > 0, table.gather(2, flat), flat).view_as(levels).to(levels.dtype)


_PHOTOMETRIC: dict[str, Callable[[Levels, Steps], Levels]] = {
    "brightness": _brightness,
    "color": _color,
    "contrast": _contrast,
    "sharpness": _sharpness,
    "autocontrast": _autocontrast,
    "equalize": _equalize,
    "blur": _blur,
    "smooth": _smooth,
}
