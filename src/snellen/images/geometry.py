"""How a picture of any size becomes the square that a classifier takes, and its truth mask with it."""

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
"""Left, top, right and bottom in pixels of the picture; right and bottom lie just outside."""

_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


@dataclass(frozen=True)
class Geometry:
    """Centre-crops the share `crop` of the short side, then resizes to `size`; `size=None` leaves a picture as it is.

    `size` is (height, width). The window has the shape of `size`, so nothing is stretched; its edges may fall between
    pixels. The picture, its mask and its boxes go through the same window.

    >>> Geometry(size=(224, 224), crop=0.5).window(100, 60)
    (35.0, 15.0, 65.0, 45.0)
    """

    size: tuple[int, int] | None = (224, 224)
    crop: float = 0.875
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise SnellenError(f"the size of a picture is (height, width), both at least 1, not {self.size}")
        if not 0 < self.crop <= 1:
            raise SnellenError(f"crop is the share of the short side that is kept, above 0 and at most 1, not {self.crop}")

    def window(self, width: int, height: int) -> Box:
        """The part of a picture of this size that the classifier sees."""
        if self.size is None:
            return (0.0, 0.0, float(width), float(height))
        rows, columns = self.size
        scale = self.crop * min(width / columns, height / rows)
        wide, tall = columns * scale, rows * scale
        left, top = max(0.0, (width - wide) / 2), max(0.0, (height - tall) / 2)  # rounding may fall just outside
        return (left, top, min(float(width), left + wide), min(float(height), top + tall))

    def picture(self, image: Image.Image, channels: int = 3) -> Float[Tensor, "channels height width"]:
        """Pixels in [0, 1] of a grey ("L"), colour ("RGB") or floating-point grey ("F", already in [0, 1]) picture."""
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

    def mask(self, marked: np.ndarray) -> Bool[Tensor, "height width"]:
        """A truth mask of the whole picture through the window: a pixel is marked when at least half of it was."""
        whole = Image.fromarray(np.where(marked, 255, 0).astype(np.uint8))
        if self.size is not None:
            rows, columns = self.size
            whole = whole.resize((columns, rows), Image.Resampling.BOX, box=self.window(*whole.size))
        return torch.from_numpy(np.array(whole) >= 128)

    def boxes(self, boxes: Sequence[Box], width: int, height: int) -> Bool[Tensor, "height width"]:
        """The union of boxes, given in pixels of a picture of this size, through the window.

        A box of which anything is visible marks at least one pixel.
        """
        left, top, right, bottom = self.window(width, height)
        rows, columns = self.size or (height, width)
        across, down = columns / (right - left), rows / (bottom - top)
        marked = torch.zeros(rows, columns, dtype=torch.bool)
        for x0, y0, x1, y1 in boxes:
            if x1 <= left or x0 >= right or y1 <= top or y0 >= bottom:
                continue
            first_column, end_column = _span((x0 - left) * across, (x1 - left) * across, columns)
            first_row, end_row = _span((y0 - top) * down, (y1 - top) * down, rows)
            marked[first_row:end_row, first_column:end_column] = True
        return marked


def _span(start: Number, end: Number, limit: int) -> tuple[int, int]:
    first = min(limit - 1, max(0, round(start)))
    return first, max(first + 1, min(limit, round(end)))


AS_IS = Geometry(size=None)
