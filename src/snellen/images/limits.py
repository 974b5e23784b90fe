"""Limits of decoded images: a small file can contain gigabytes."""

from __future__ import annotations

from snellen.images.samples import UnreadablePictureError

MOST_PIXELS = 64_000_000
"""Largest decoded image, after the reduction that JPEG offers."""

MOST_VALUES = 3 * MOST_PIXELS
"""Most values of a decoded image: pixels times channels."""

SMALLEST = 2
"""Smallest side in pixels."""


def check_size(width: int, height: int, name: str, channels: int = 1) -> None:
    """Refuses images that are too small or too large, before they are decoded.

    Args:
        width: in pixels.
        height: in pixels.
        name: the file, for the error message.
        channels: how many values a pixel has.
    """
    if min(width, height) < SMALLEST:
        raise UnreadablePictureError(f"{name} is {width}×{height} pixels; a picture needs at least {SMALLEST}×{SMALLEST}")
    if width * height > MOST_PIXELS:
        raise too_large(name)
    if width * height * channels > MOST_VALUES:
        raise UnreadablePictureError(f"{name} holds more than {MOST_VALUES // 10**6} million values; make it smaller first")


def too_large(name: str) -> UnreadablePictureError:
    """The error for an image with too many pixels."""
    return UnreadablePictureError(f"{name} is larger than {MOST_PIXELS // 10**6} million pixels; make it smaller first")
