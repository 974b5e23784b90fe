"""Decoding of files with any number of channels: .npy arrays and TIFF files with several pages, planes or samples."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from snellen.errors import SnellenError, first_line
from snellen.images.limits import check_size
from snellen.images.reading import Reading
from snellen.images.samples import UnreadablePictureError

ARRAYS = frozenset({".npy"})
TIFFS = frozenset({".tif", ".tiff"})

_DEFLATE = (8, 32946)
"""TIFF's numbers of the compression that is unpacked here under a limit."""

Planes = tuple[Image.Image, ...]
"""One image in mode "F", in [0, 1], per channel."""


def decode_array(path: Path, channels: int, reading: Reading, content: io.BytesIO | None = None) -> Planes:
    """The channels of an array in a .npy file: height×width, channels×height×width or height×width×channels."""
    name = f"'{path}'"
    _check_frame(reading, name)
    try:
        # Mapped, because the header says how large the array is before it is read; pickled objects are refused.
        values = np.load(content or path, mmap_mode=None if content else "r", allow_pickle=False)
    except FileNotFoundError:
        raise UnreadablePictureError(f"there is no file {name}") from None
    except Exception:
        raise UnreadablePictureError(f"{name} is damaged, or not an array of numbers in the .npy format") from None
    return _planes(values, channels, reading, name)


def decode_tiff(path: Path, channels: int, reading: Reading, content: io.BytesIO | None = None) -> Planes:
    """The channels of a TIFF file: its pages, its planes, or the samples of its pixels."""
    name = f"'{path}'"
    _check_frame(reading, name)
    try:
        import tifffile
    except ImportError:
        raise SnellenError(f"{name} is read as {channels} channels, which needs tifffile; install snellen[tiff]") from None
    try:
        with tifffile.TiffFile(content or path) as opened:
            if channels in (1, 3) and len(opened.pages) > 1:
                raise UnreadablePictureError(f"{name} holds several frames; save the one to use as a file of its own")
            series = opened.series[0]
            shape = tuple(size for size in series.shape if size > 1)
            _check_shape(shape, channels, name)
            for page in series.pages:
                if page is not None:
                    _check_page(page, name)
            values = series.asarray().reshape(shape)
    except SnellenError:
        raise
    except FileNotFoundError:
        raise UnreadablePictureError(f"there is no file {name}") from None
    except Exception as problem:  # decoders raise almost anything on damaged files
        raise UnreadablePictureError(f"{name} is damaged and cannot be read ({first_line(problem)})") from None
    return _planes(values, channels, reading, name)


def channels_last(shape: Sequence[int], channels: int) -> bool | None:
    """Whether channels are the last of three axes; None where neither the first nor the last has so many.

    >>> channels_last((5, 32, 32), 5), channels_last((32, 32, 5), 5), channels_last((4, 32, 32), 5)
    (False, True, None)
    """
    if shape[0] == channels:
        return False
    return True if shape[-1] == channels else None


def _check_frame(reading: Reading, name: str) -> None:
    """Refuses a frame beyond the first."""
    if reading.frame not in (None, 1):
        raise SnellenError(f"--frame is {reading.frame}, but {name} is read as channels, not as frames; leave it out")


def _check_shape(shape: Sequence[int], channels: int, name: str) -> bool:
    """Whether channels come last; refuses arrays of another shape, before they are read."""
    if len(shape) == 2:
        check_size(shape[1], shape[0], name)
        if channels not in (1, 3):
            raise UnreadablePictureError(f"{name} has 1 channel, but the classifier takes {channels}")
        return False
    words = "×".join(map(str, shape))
    if len(shape) != 3:
        raise UnreadablePictureError(
            f"{name} is an array of {words}; a picture is channels×height×width, height×width×channels or height×width"
        )
    last = channels_last(shape, channels)
    if last is None:
        raise UnreadablePictureError(
            f"{name} is {words}, but the classifier takes {channels} channel{'' if channels == 1 else 's'}; "
            f"the first or last of the three must be {channels}"
        )
    height, width = shape[:2] if last else shape[1:]
    check_size(width, height, name, channels)
    return last


def _check_page(page: Any, name: str) -> None:
    """Refuses a page of a TIFF file whose zero is white, or that unpacks to more than its header says."""
    if page.photometric == 0:
        raise UnreadablePictureError(f"{name} states that zero is white, which is not read here; save it with zero as black")
    compression = int(page.compression)
    if compression not in (1, *_DEFLATE):
        raise UnreadablePictureError(
            f"{name} has several channels and is compressed with {page.compression.name}; save it without compression, "
            "with deflate, or as .npy"
        )
    if compression == 1:
        return
    chunk = int(np.prod(page.chunks)) * page.dtype.itemsize
    for data, _ in page.parent.filehandle.read_segments(page.dataoffsets, page.databytecounts):
        if data is not None and len(zlib.decompressobj().decompress(data, chunk + 1)) > chunk:
            raise UnreadablePictureError(f"{name} is damaged: it unpacks to more than its header says")


def _planes(values: np.ndarray, channels: int, reading: Reading, name: str) -> Planes:
    last = _check_shape(values.shape, channels, name)
    if values.dtype.kind not in "uif" and values.dtype != np.bool_:
        raise UnreadablePictureError(f"{name} holds {values.dtype}, not real numbers")
    pixels = _scaled(np.array(values), reading, name)
    if pixels.ndim == 2:
        return (Image.fromarray(pixels),)
    return tuple(Image.fromarray(np.ascontiguousarray(plane)) for plane in (pixels.transpose(2, 0, 1) if last else pixels))


def _scaled(values: np.ndarray, reading: Reading, name: str) -> np.ndarray:
    """Pixels in [0, 1]: bytes divided by 255, other values by the stated range, or as they are where they lie in [0, 1]."""
    if values.dtype == np.bool_:
        return values.astype(np.float32)
    if values.dtype == np.uint8:
        return values.astype(np.float32) / np.float32(255.0)
    if not np.isfinite(values).all():
        raise UnreadablePictureError(f"{name} holds NaN or infinite values")
    if reading.range is not None:
        return reading.scale(values)
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind != "f" or low < 0 or high > 1:
        raise UnreadablePictureError(
            f"{name} holds {values.dtype} values from {low:g} to {high:g}, whose range is unknown; state it with --range, "
            "such as --range 0,4095"
        )
    return values.astype(np.float32)
