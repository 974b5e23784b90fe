"""The pixels of a picture file of any kind, shaped for a classifier."""

from __future__ import annotations

import io
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from snellen.images import decoding, dicom, planes
from snellen.images.geometry import Geometry
from snellen.images.reading import Reading
from snellen.images.samples import UnreadablePictureError

SUFFIXES = decoding.SUFFIXES | dicom.SUFFIXES
"""Endings of picture files; those of `planes.ARRAYS` are pictures only where there are no others."""


def is_picture(path: Path) -> bool:
    """Whether a file is a picture, by its name, or for DICOM files without an ending by its first bytes."""
    return path.suffix.lower() in SUFFIXES or dicom.is_dicom(path)


def read_picture(
    path: Path, *, geometry: Geometry, channels: int, reading: Reading, content: io.BytesIO | None = None
) -> tuple[Float[Tensor, "channels height width"], tuple[int, int]]:
    """The pixels in [0, 1] of a file, cropped and resized; and the width and height of the original.

    Args:
        path: of the file; its name says which kind it is.
        geometry: how the picture is cropped and resized.
        channels: of the classifier.
        reading: how stored values become pixels.
        content: what the file holds, where it is not on disk.
    """
    suffix = path.suffix.lower()
    if suffix in planes.ARRAYS:
        parts = planes.decode_array(path, channels, reading, content)
        size = parts[0].size
    elif suffix in planes.TIFFS and (channels not in (1, 3) or not decoding.can_open(path, content)):
        parts = planes.decode_tiff(path, channels, reading, content)
        size = parts[0].size
    elif channels not in (1, 3):
        raise UnreadablePictureError(
            f"'{path}' cannot hold {channels} channels, which the classifier takes; give TIFF or .npy files"
        )
    elif dicom.is_dicom(path):
        image = dicom.decode_dicom(path, reading, content)
        parts, size = image.planes, image.size
    else:
        decoded = decoding.decode(path, content=content, at_least=_at_least(geometry), reading=reading)
        parts, size = (decoded.image,), decoded.size
    return geometry.pictures(parts, channels), size


def _at_least(geometry: Geometry) -> tuple[int, int] | None:
    """The size to which a JPEG may be reduced: two pixels for each pixel of the classifier's input; None for all."""
    if geometry.size is None or geometry.whole:
        return None
    side = round(2 * max(geometry.size) / geometry.crop)
    return (side, side)
