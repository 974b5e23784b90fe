"""Reading: how the stored values of image files become pixels in [0, 1], and which channels pages show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snellen.errors import SnellenError
from snellen.images.geometry import Number


@dataclass(frozen=True)
class Reading:
    """How stored values become pixels. None everywhere reads files as they describe themselves.

    >>> Reading(range=(0, 4095)).scale(np.array([0, 4095, 9000])).tolist()
    [0.0, 1.0, 1.0]
    """

    window: tuple[Number, Number] | None = None
    """Centre and width of the values that DICOM pictures show, after rescaling; otherwise the window of each file."""
    range: tuple[Number, Number] | None = None
    """The stored values that become 0 and 1, for PNG, TIFF and .npy files with more than 8 bits per channel."""
    frame: int | None = None
    """The frame to use of files with several, counted from 1."""
    show_channels: tuple[int, ...] | None = None
    """One channel, or three as red, green and blue, that pages show of pictures with other than 1 or 3 channels; counted
    from 1."""

    def __post_init__(self) -> None:
        for name, values in (("window", self.window), ("range", self.range)):
            if values is not None and (len(values) != 2 or not all(map(math.isfinite, values))):
                raise SnellenError(f"{name} must be two numbers, not {_listed(values)}")
        if self.window is not None and self.window[1] < 1:
            raise SnellenError(f"window is a centre and a width of at least 1, but the width is {self.window[1]:g}")
        if self.range is not None and self.range[0] >= self.range[1]:
            raise SnellenError(f"range must be a lower and a higher value, not {_listed(self.range)}")
        if self.frame is not None and self.frame < 1:
            raise SnellenError(f"frame counts from 1, but it is {self.frame}")
        if self.show_channels is not None and (len(self.show_channels) not in (1, 3) or min(self.show_channels) < 1):
            raise SnellenError(
                "show_channels must be one channel or three, counted from 1, such as 3,2,1, "
                f"not {_listed(self.show_channels)}"
            )

    def words(self, channels: int) -> str:
        """What a description of samples adds about the reading; empty where files are read as they describe themselves.

        >>> Reading(range=(0, 4095)).words(5)
        ', range 0 to 4095, shown by channels 1, 2, 3'
        """
        parts = []
        if self.window is not None:
            parts.append(f"window {_listed(self.window)}")
        if self.range is not None:
            parts.append(f"range {self.range[0]:g} to {self.range[1]:g}")
        if self.frame is not None:
            parts.append(f"frame {self.frame}")
        if self.show_channels is not None or channels not in (1, 3):
            shown = self.show_channels or _first_channels(channels)
            parts.append(f"shown by channel{'' if len(shown) == 1 else 's'} {', '.join(map(str, shown))}")
        return "".join(f", {part}" for part in parts)

    def scale(self, values: np.ndarray) -> Float[np.ndarray, "..."]:
        """Stored values as pixels by the stated range; values outside of it are clipped."""
        if self.range is None:
            raise SnellenError("there is no range to scale by; state one, such as --range 0,4095")
        low, high = self.range
        return ((values.astype(np.float64) - low) / (high - low)).clip(0.0, 1.0).astype(np.float32)


AS_STORED = Reading()
"""Reads files as they describe themselves."""


def colours(
    image: Float[Tensor, "channels height width"], show_channels: tuple[int, ...] | None
) -> Float[Tensor, "3 height width"]:
    """What pages show of an image: the chosen channels, or else the first three; of one or two, the first in grey."""
    chosen = show_channels or _first_channels(len(image))
    return torch.stack([image[channel - 1] for channel in (chosen if len(chosen) == 3 else chosen * 3)])


def check_shown(show_channels: tuple[int, ...] | None, channels: int) -> None:
    """Refuses chosen channels that images do not have."""
    if show_channels is not None and max(show_channels) > channels:
        raise SnellenError(
            f"--show-channels {','.join(map(str, show_channels))} names channel {max(show_channels)}, "
            f"but the pictures have {channels}"
        )


def _first_channels(channels: int) -> tuple[int, ...]:
    return (1, 2, 3) if channels >= 3 else (1,)


def _listed(values: tuple[Number, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)
