"""Geometry: cropping and resizing of images and their truth to the size that a classifier takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from snellen.errors import SnellenError

Number = int | float
Box = tuple[Number, Number, Number, Number]
"""Left, top, right and bottom in pixels; right and bottom are exclusive."""

_RESAMPLING = {
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}


@dataclass(frozen=True)
class Geometry:
    """Crops the centre of an image and resizes it; masks and boxes are changed in the same way.

    The crop has the proportions of `size`, so nothing is stretched unless `stretch` is set; edges may lie between pixels.

    >>> Geometry(size=(224, 224), crop=0.5).window(100, 60)
    (35.0, 15.0, 65.0, 45.0)
    """

    size: tuple[int, int] | None = (224, 224)
    """(height, width); None leaves images as they are."""
    crop: float = 0.875
    """Share of the short side that remains."""
    interpolation: Literal["bicubic", "bilinear", "lanczos", "nearest"] = "bicubic"
    """How pixels are resized; with averaging where the image shrinks."""
    stretch: bool = False
    """Whether the crop has the proportions of the image instead, as for models that were trained on stretched images."""
    short_side: int | None = None
    """Pixels of the short side, or of both sides of a stretched image, before the crop, for a crop at whole pixels of the
    resized image, as transformers does."""
    nearest: bool = False
    """Whether such a crop starts at the nearest whole pixel (halves to even), as in torchvision, not at the one before."""
    whole: bool = False
    """Whether large JPEG files are decoded whole; otherwise they are reduced as they are read, to at least twice `size`."""

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise SnellenError(f"the size of a picture is (height, width), both at least 1, not {self.size}")
        if not 0 < self.crop <= 1:
            raise SnellenError(f"crop is the share of the short side that is kept, above 0 and at most 1, not {self.crop}")
        if self.short_side is not None and (self.size is None or self.short_side < max(self.size)):
            raise SnellenError(f"short_side needs a size within it, not {self.short_side} and {self.size}")

    def window(self, width: int, height: int) -> Box:
        """The crop of an image of this size."""
        if self.size is None:
            return (0.0, 0.0, float(width), float(height))
        rows, columns = self.size
        if self.short_side is not None:
            sides = (1, 1) if self.stretch else (width, height)
            resized = [int(self.short_side * side / min(sides)) for side in sides]
            spare = [side - part for side, part in zip(resized, (columns, rows), strict=True)]
            starts = [round(pixels / 2) if self.nearest else pixels // 2 for pixels in spare]
            across, down = width / resized[0], height / resized[1]
            right, bottom = (starts[0] + columns) * across, (starts[1] + rows) * down
            return (starts[0] * across, starts[1] * down, min(float(width), right), min(float(height), bottom))
        scale = self.crop * min(width / columns, height / rows)
        wide, tall = (self.crop * width, self.crop * height) if self.stretch else (columns * scale, rows * scale)
        left, top = max(0.0, (width - wide) / 2), max(0.0, (height - tall) / 2)  # rounding may be just outside
        return (left, top, min(float(width), left + wide), min(float(height), top + tall))

    def picture(self, image: Image.Image, channels: int = 3) -> Float[Tensor, "channels height width"]:
        """Pixels in [0, 1] of a cropped and resized image; mode "F" must be in [0, 1] already."""
        if image.mode not in ("L", "RGB", "F"):
            image = image.convert("RGB")
        if channels == 1 and image.mode == "RGB":
            image = image.convert("L")
        if self.size is not None:
            rows, columns = self.size
            image = image.resize((columns, rows), _RESAMPLING[self.interpolation], box=self.window(*image.size))
        pixels = np.array(image, dtype=np.float32)
        if image.mode != "F":
            pixels /= 255.0
        tensor = torch.from_numpy(pixels.clip(0.0, 1.0))
        tensor = tensor.permute(2, 0, 1) if tensor.dim() == 3 else tensor.unsqueeze(0)
        return tensor.expand(channels, -1, -1).contiguous()

    def pictures(self, planes: Sequence[Image.Image], channels: int) -> Float[Tensor, "channels height width"]:
        """The same for one image with all channels, or for several with one each."""
        if len(planes) == 1:
            return self.picture(planes[0], channels)
        if channels == 1:  # colours with more than 8 bits; the weights of ITU-R 601-2, as for those with 8
            weights = np.array([0.299, 0.587, 0.114], dtype=np.float32)
            return self.picture(Image.fromarray(np.stack([np.asarray(plane) for plane in planes], axis=-1) @ weights), 1)
        return torch.cat([self.picture(plane, 1) for plane in planes])

    def mask(self, mask: np.ndarray) -> Bool[Tensor, "height width"]:
        """A cropped and resized mask; a pixel is true if at least half of it was."""
        levels = Image.fromarray(np.where(mask, 255, 0).astype(np.uint8))
        if self.size is not None:
            rows, columns = self.size
            levels = levels.resize((columns, rows), Image.Resampling.BOX, box=self.window(*levels.size))
        return torch.from_numpy(np.array(levels) >= 128)

    def boxes(self, boxes: Sequence[Box], width: int, height: int) -> Bool[Tensor, "height width"]:
        """A mask of boxes, cropped and resized; a box that is partly visible covers at least one pixel.

        Args:
            boxes: in pixels of the original image.
            width: width of the original image.
            height: height of the original image.
        """
        left, top, right, bottom = self.window(width, height)
        rows, columns = self.size or (height, width)
        across, down = columns / (right - left), rows / (bottom - top)
        mask = torch.zeros(rows, columns, dtype=torch.bool)
        for x0, y0, x1, y1 in boxes:
            if x1 <= left or x0 >= right or y1 <= top or y0 >= bottom:
                continue
            first_column, end_column = _span((x0 - left) * across, (x1 - left) * across, columns)
            first_row, end_row = _span((y0 - top) * down, (y1 - top) * down, rows)
            mask[first_row:end_row, first_column:end_column] = True
        return mask


def _span(start: Number, end: Number, limit: int) -> tuple[int, int]:
    first = min(limit - 1, max(0, round(start)))
    return first, max(first + 1, min(limit, round(end)))


AS_IS = Geometry(size=None)
"""Leaves images as they are."""
