"""How a picture of any size becomes the square that a classifier takes, and its truth mask with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Geometry:
    """Centre-crops the share `crop` of the short side, then resizes to `size`; `size=None` leaves a picture as it is."""

    size: tuple[int, int] | None = (224, 224)
    crop: float = 0.875
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"


AS_IS = Geometry(size=None)
