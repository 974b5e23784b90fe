"""What is known about a model before it becomes a Classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from snellen.images.geometry import Geometry

UNCUT = Geometry(size=None, crop=1.0)
"""Pictures as they are; where only a size is given, the whole short side."""


@dataclass(frozen=True)
class Found:
    """A model with its normalisation, size and class names; a model that nobody describes sees pixels as they are."""

    model: nn.Module | Callable[[Tensor], Any]
    name: str
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    geometry: Geometry = UNCUT
    classes: tuple[str, ...] | None = None
    channels: int | None = None
    rows: int | None = None
    took_weights: bool = False
