"""Preparation: what an image processor of transformers does to an image, in Snellen's terms."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from PIL import Image
from torch import Tensor, nn

from snellen.errors import SnellenError, first_line
from snellen.images.geometry import Geometry

_INTERPOLATIONS: Mapping[int | None, Literal["nearest", "lanczos", "bilinear", "bicubic"]] = {
    None: "bilinear",  # the default of transformers
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
}

ALIKE = 0.01
"""Largest mean difference, in pixels in [0, 1], between the processor's picture and ours; rounding of edges is below."""

WRAP = "return a Classifier from a function of your own (package.module:function)"


@dataclass(frozen=True)
class Preparation:
    """What a processor does to an image, in Snellen's terms."""

    geometry: Geometry
    """How it crops and resizes."""
    mean: tuple[float, ...]
    """Mean of the normalisation, in pixels."""
    std: tuple[float, ...]
    """Standard deviation of the normalisation, in pixels."""
    reversed_channels: bool
    """Whether the processor gives blue, green and red, in this order."""
    values: dict[str, Any]
    """The processor's own settings, as JSON."""
    notes: tuple[str, ...]
    """What the user should know about it."""


class ReversedChannels(nn.Module):
    """A model that takes blue, green and red, as one that takes red, green and blue."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Any:
        """The model's own outputs."""
        return self.model(inputs.flip(1))


def read_processor(processor: Any, spec: str, channels: int = 3) -> Preparation:
    """The geometry and normalisation of an image processor.

    They are compared with what the processor itself makes of a picture, and a processor that does something else is refused.
    """
    values = json.loads(json.dumps(processor.to_dict(), default=str))
    timm = values.get("data_config")
    if timm is not None:
        values = {**values, "image_mean": list(timm["mean"]), "image_std": list(timm["std"])}
    geometry, square = _geometry(values, spec) if timm is None else (_timm_geometry(timm, spec), False)
    mean, std = _normalisation(values)
    reversed_channels = bool(values.get("do_flip_channel_order"))
    prepared = Preparation(
        geometry=replace(geometry, whole=True),
        mean=mean,
        std=std,
        reversed_channels=reversed_channels,
        values={key: value for key, value in values.items() if value is not None},
        notes=(f"'{spec}' keeps the proportions of its images; here they are cropped to a square",) if square else (),
    )
    if channels == 3:
        _compare(processor, prepared, spec, square=square)
    return prepared


def _normalisation(values: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of pixels in [0, 1], from what a processor does to 255 times the pixels."""
    rescaled, normalised = values.get("do_rescale", True), values.get("do_normalize", True)
    factor = 255 * float(values.get("rescale_factor") or 1 / 255) if rescaled else 255.0
    offset = 1.0 if values.get("rescale_offset") and rescaled else 0.0
    if values.get("do_flip_channel_order"):  # such processors ignore mean and std
        normalised = False
    mean, std = (
        _numbers(values[f"image_{key}"]) if normalised else (plain,) for key, plain in (("mean", 0.0), ("std", 1.0))
    )
    if values.get("include_top"):  # EfficientNet divides by std a second time
        again = _numbers(values["image_std"])
        std = tuple(first * second for first, second in zip(std if normalised else std * len(again), again, strict=True))
    return tuple((number + offset) / factor for number in mean), tuple(number / factor for number in std)


def _geometry(values: Mapping[str, Any], spec: str) -> tuple[Geometry, bool]:
    """The geometry of a processor, and whether the processor itself would give images of several shapes."""
    size = {key: side for key, side in (values.get("size") or {}).items() if side is not None}
    centre: Mapping[str, int] | None = values.get("crop_size") if values.get("do_center_crop") else None
    interpolation = _INTERPOLATIONS.get(values.get("resample"))
    kind = values.get("image_processor_type", "its processor")
    if not values.get("do_resize", True) and centre is None:
        return Geometry(None, crop=1.0), False
    described = values.get("do_resize", True) and set(size) in ({"height", "width"}, {"shortest_edge"})
    if interpolation is None or not described or kind.startswith("Perceiver"):  # which crops first
        raise SnellenError(f"'{spec}': {kind} resizes in a way that is not supported; {WRAP}")
    edge = size.get("shortest_edge")
    if edge and values.get("crop_pct"):  # ConvNeXt crops small images only
        stretch = edge >= 384 and centre is None
        side = None if stretch else int(edge / values["crop_pct"])
        share = edge / side if side else 1.0
        return Geometry((edge, edge), share, interpolation, stretch=stretch, short_side=side), False
    if edge and kind.startswith("Levit"):
        edge = int(256 / 224 * edge)
    height, width = (edge, edge) if edge else (size["height"], size["width"])
    rows, columns = (centre["height"], centre["width"]) if centre else (height, width)
    if rows > height or columns > width:
        raise SnellenError(f"'{spec}': {kind} pads images of {height}×{width} to {rows}×{columns}; {WRAP}")
    if height != width and (rows, columns) != (height, width):
        raise SnellenError(f"'{spec}': {kind} crops stretched images of {height}×{width}, which is not supported; {WRAP}")
    side = height if height == width else None
    share = min(rows / height, columns / width)
    geometry = Geometry((rows, columns), share, interpolation, stretch=not edge, short_side=side)
    return geometry, bool(edge and not centre)


def _timm_geometry(config: Mapping[str, Any], spec: str) -> Geometry:
    """The geometry of a model of timm, which crops at whole pixels of the resized image."""
    _, rows, columns = config["input_size"]
    crop, interpolation = float(config["crop_pct"]), config["interpolation"]
    if interpolation not in _INTERPOLATIONS.values() or config.get("crop_mode") == "border":
        raise SnellenError(
            f"'{spec}' resizes in a way that is not supported ({interpolation}, crop mode {config['crop_mode']}); {WRAP}"
        )
    stretch = config.get("crop_mode") == "squash"
    side = math.floor(rows / crop) if rows == columns else None
    share = rows / side if side else crop
    return Geometry((rows, columns), share, interpolation, stretch=stretch, short_side=side, nearest=True)


def _compare(processor: Any, prepared: Preparation, spec: str, *, square: bool) -> None:
    """Refuses a processor whose picture of a smooth image differs from ours."""
    rows, columns = prepared.geometry.size or (32, 32)
    side = max(rows, columns)
    tall, wide = (2 * side, 2 * side) if square else (round(1.5 * side), 2 * side)
    down, across = np.mgrid[0 : 1 : tall * 1j, 0 : 1 : wide * 1j]
    levels = np.stack([down, across, (down + 1 - across) / 2], axis=-1)
    image = Image.fromarray((255 * levels).round().astype(np.uint8))
    try:
        theirs = np.asarray(processor(image, return_tensors="pt")["pixel_values"][0])
    except Exception as problem:
        raise SnellenError(f"'{spec}': its processor fails on a colour picture ({first_line(problem)}); {WRAP}") from problem
    ours = prepared.geometry.picture(image).numpy()[:: -1 if prepared.reversed_channels else 1]
    mean, std = (np.reshape(numbers, (-1, 1, 1)) for numbers in (prepared.mean, prepared.std))
    if theirs.shape != ours.shape or float(np.abs(theirs * std + mean - ours).mean()) > ALIKE:
        kind = prepared.values.get("image_processor_type", "the processor")
        raise SnellenError(
            f"'{spec}': {kind} prepares images in a way that size, crop, mean and std do not describe; {WRAP}"
        )


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(map(float, value)) if isinstance(value, list) else (float(value),)
