"""Decoding of DICOM files. Only what describes the pixels is read; no message quotes anything else of the file.

Headers hold names, dates of birth and the like. pydicom is asked for the elements in `_TAGS` alone, its warnings and log
are silenced while it reads, and texts of its errors, which may quote a header, are replaced by sentences of this module.
"""

from __future__ import annotations

import contextlib
import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from snellen.errors import SnellenError
from snellen.images.limits import check_size
from snellen.images.reading import Reading
from snellen.images.samples import UnreadablePictureError

if TYPE_CHECKING:
    from pydicom import Dataset

SUFFIXES = frozenset({".dcm", ".dicom"})

_GROUPS = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
_TAGS = (
    "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "Rows", "Columns",
    "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "PixelData", "FloatPixelData", "DoubleFloatPixelData",
    "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction",
    "VOILUTSequence", "ExtendedOffsetTable", "ExtendedOffsetTableLengths",
    "RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor",
    "BluePaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData", "GreenPaletteColorLookupTableData",
    "BluePaletteColorLookupTableData", "SegmentedRedPaletteColorLookupTableData",
    "SegmentedGreenPaletteColorLookupTableData", "SegmentedBluePaletteColorLookupTableData", *_GROUPS,
)  # fmt: skip

_DEFLATED = "1.2.840.10008.1.2.1.99"
_DECODERS = "pylibjpeg[all]"
"""The package that decodes what pydicom and Pillow alone cannot."""


@dataclass(frozen=True)
class DecodedDicom:
    """The pixels of a DICOM file."""

    planes: tuple[Image.Image, ...]
    """One image in mode "L", "RGB" or "F"; three in mode "F" for colours with more than 8 bits."""
    size: tuple[int, int]
    """(width, height)."""
    unwindowed: str | None = None
    """What the range of pixels is where neither the file nor the user states a window, in words."""


@dataclass(frozen=True)
class Window:
    """The values that become black and white (PS3.3 C.11.2.1.2 and C.11.2.1.3).

    >>> Window(2048, 4096)(np.array([-1.0, 0.0, 2047.5, 4095.0])).tolist()
    [0.0, 0.0, 0.5, 1.0]
    """

    centre: float
    width: float
    function: str = "LINEAR"

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Pixels in [0, 1]."""
        if self.function == "SIGMOID":
            exponent = (-4 * (values - self.centre) / self.width).clip(-700, 700)
            return 1 / (1 + np.exp(exponent))
        centre, width = (self.centre - 0.5, self.width - 1) if self.function == "LINEAR" else (self.centre, self.width)
        if width == 0:
            return (values > centre).astype(np.float64)
        return ((values - centre) / width + 0.5).clip(0.0, 1.0)


def decode_dicom(path: Path, reading: Reading) -> DecodedDicom:
    """One frame of a DICOM file as pixels in [0, 1]: rescaled, windowed, and white for high values."""
    name = f"'{path}'"
    with _silent():
        header = _header(path, name)
        frame = _frame(header, reading, name)
        values = _values(header, frame, name)
        return _pixels(header, values, frame, reading, name)


def unwindowed(path: Path, reading: Reading) -> str | None:
    """The range that is used where neither the file nor the user states a window, in words; decoded only then."""
    if reading.window is not None:
        return None
    with _silent(), contextlib.suppress(Exception):
        import pydicom

        header = pydicom.dcmread(path, specific_tags=list(_TAGS), stop_before_pixels=True)
        stated = _with_groups(header, (reading.frame or 1) - 1)
        if _window(stated) is not None or not str(header.get("PhotometricInterpretation", "")).startswith("MONOCHROME"):
            return None
    return decode_dicom(path, reading).unwindowed


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    log = logging.getLogger("pydicom")
    before = log.disabled
    log.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = before


def _header(path: Path, name: str) -> Dataset:
    try:
        import pydicom
        from pydicom.filereader import read_file_meta_info
    except ImportError:
        raise SnellenError(f"{name} is a DICOM file, which needs pydicom; install snellen[medical]") from None
    if not path.is_file():
        problem = "is not an ordinary file and cannot be read" if path.exists() else "does not exist"
        raise UnreadablePictureError(f"{name} {problem}")
    try:
        syntax = str(read_file_meta_info(path).get("TransferSyntaxUID", ""))
        if syntax == _DEFLATED:  # it is unpacked as a whole, before anything says how large it is
            raise UnreadablePictureError(f"{name} is a deflated DICOM file; save it without the deflated transfer syntax")
        header = pydicom.dcmread(path, specific_tags=list(_TAGS))
        if not syntax:
            header.file_meta.TransferSyntaxUID = pydicom.uid.ImplicitVRLittleEndian
    except UnreadablePictureError:
        raise
    except pydicom.errors.InvalidDicomError:
        raise UnreadablePictureError(f"{name} is not a DICOM file, although its name says so") from None
    except Exception:
        raise UnreadablePictureError(f"{name} is damaged and cannot be read as DICOM") from None
    if not any(tag in header for tag in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise UnreadablePictureError(f"{name} is a DICOM file without pixels, such as a report; remove it")
    try:
        rows, columns = int(header.Rows), int(header.Columns)
    except Exception:
        raise UnreadablePictureError(f"{name} is damaged: its header does not state rows and columns") from None
    check_size(columns, rows, name)
    return header


def _frame(header: Dataset, reading: Reading, name: str) -> int:
    """The frame to use, counted from 0."""
    try:
        count = int(header.get("NumberOfFrames", None) or 1)
    except Exception:
        raise UnreadablePictureError(f"{name} is damaged: its number of frames is not a number") from None
    if reading.frame is None and count > 1:
        raise UnreadablePictureError(f"{name} holds {count} frames; choose one with --frame, such as --frame 1")
    if (reading.frame or 1) > count:
        held = "1 frame" if count == 1 else f"{count} frames"
        raise UnreadablePictureError(f"{name} holds {held}, but --frame is {reading.frame}")
    return (reading.frame or 1) - 1


def _values(header: Dataset, frame: int, name: str) -> np.ndarray:
    """The stored values of a frame; colours as RGB."""
    from pydicom.pixels import get_decoder, pixel_array

    syntax = header.file_meta.TransferSyntaxUID
    if syntax.is_compressed:
        try:
            available = get_decoder(syntax).is_available
        except Exception:
            available = False
        if not available:
            raise _undecodable(syntax, name)
    try:
        return np.asarray(pixel_array(header, index=frame))
    except Exception:
        if syntax.is_compressed:
            raise _undecodable(syntax, name) from None
        raise UnreadablePictureError(f"{name} is damaged: its pixels do not fit its header") from None


def _undecodable(syntax: Any, name: str) -> UnreadablePictureError:
    kind = syntax.name if not syntax.is_private and syntax.name != syntax else "with an unknown method"
    return UnreadablePictureError(
        f"{name} is compressed ({kind}) and cannot be decoded here; install {_DECODERS}, or save it without compression"
    )


def _pixels(header: Dataset, values: np.ndarray, frame: int, reading: Reading, name: str) -> DecodedDicom:
    kind = str(header.get("PhotometricInterpretation", "")).strip()
    size = (int(header.Columns), int(header.Rows))
    if kind == "PALETTE COLOR":
        from pydicom.pixels import apply_color_lut

        try:
            values = apply_color_lut(values, header)
        except Exception:
            raise UnreadablePictureError(f"{name} has palette colours, but its palette cannot be read") from None
        return _colours(values, 8 * values.dtype.itemsize, size, reading, name)
    if kind == "RGB" or kind.startswith("YBR_"):  # pydicom converts the latter
        return _colours(values, int(header.get("BitsStored", 8)), size, reading, name)
    if kind not in ("MONOCHROME1", "MONOCHROME2") or values.ndim != 2:
        known = "MONOCHROME1, MONOCHROME2, RGB, YBR or PALETTE COLOR"
        shown = kind if kind in ("ARGB", "CMYK", "HSV") else "of another kind"
        raise UnreadablePictureError(f"{name} holds pixels that cannot be shown ({shown}); they must be {known}")
    try:
        pixels, unwindowed = _grey(header, values, frame, reading)
    except Exception:
        raise UnreadablePictureError(
            f"{name} states a rescaling or window that cannot be used; state one with --window centre,width"
        ) from None
    if not np.isfinite(pixels).all():
        raise UnreadablePictureError(f"{name} holds pixels that are not numbers")
    if kind == "MONOCHROME1":
        pixels = 1 - pixels
    return DecodedDicom((Image.fromarray(pixels.astype(np.float32)),), size, unwindowed)


def _colours(values: np.ndarray, bits: int, size: tuple[int, int], reading: Reading, name: str) -> DecodedDicom:
    if reading.window is not None:
        raise SnellenError(f"--window is for grey pictures, but {name} has colours; leave it out")
    if values.ndim != 3 or values.shape[2] < 3:
        raise UnreadablePictureError(f"{name} is damaged: its colours do not fit its header")
    values = values[..., :3]
    if values.dtype == np.uint8 and bits == 8:
        return DecodedDicom((Image.fromarray(np.ascontiguousarray(values)),), size)
    scaled = (values.astype(np.float64) / (2**bits - 1)).clip(0.0, 1.0).astype(np.float32)
    return DecodedDicom(tuple(Image.fromarray(np.ascontiguousarray(scaled[..., plane])) for plane in range(3)), size)


def _grey(header: Dataset, values: np.ndarray, frame: int, reading: Reading) -> tuple[np.ndarray, str | None]:
    """Pixels in [0, 1], and in words the range that was used where there is no window."""
    from pydicom.pixels import apply_modality_lut, apply_voi

    stated = _with_groups(header, frame)
    low, high, words = _stored_range(stated, values)
    rescaled = np.asarray(apply_modality_lut(values, stated), dtype=np.float64)
    window = Window(*reading.window) if reading.window is not None else _window(stated)
    if window is not None:
        return window(rescaled), None
    if stated.get("VOILUTSequence"):
        table = np.asarray(apply_voi(apply_modality_lut(values, stated), stated), dtype=np.float64)
        bits = int(stated.VOILUTSequence[0].LUTDescriptor[2])
        return (table / (2**bits - 1)).clip(0.0, 1.0), None
    if stated.get("ModalityLUTSequence"):
        low, high = 0.0, 2.0 ** int(stated.ModalityLUTSequence[0].LUTDescriptor[2]) - 1
        words = "the range of its lookup table"
    else:
        slope, intercept = (
            float(stated.get(tag, default)) for tag, default in (("RescaleSlope", 1), ("RescaleIntercept", 0))
        )
        low, high = sorted((low * slope + intercept, high * slope + intercept))
    width = high - low
    scaled = (rescaled - low) / width if width else np.zeros_like(rescaled)
    return scaled.clip(0.0, 1.0), f"{words}, {low:g} to {high:g}"


def _with_groups(header: Dataset, frame: int) -> Dataset:
    """The header with rescaling and window of one frame, which newer files state in groups per frame or for all frames."""
    from pydicom import Dataset as Elements

    stated = Elements()
    for element in header:
        if element.keyword not in ("PixelData", "FloatPixelData", "DoubleFloatPixelData", *_GROUPS):
            stated.add(element)
    for sequence, place in zip(_GROUPS, (0, frame), strict=True):
        groups = header.get(sequence) or []
        if place >= len(groups):
            continue
        for part in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
            for element in (groups[place].get(part) or [()])[0]:
                stated.add(element)
    return stated


def _window(stated: Dataset) -> Window | None:
    """The first window of the file."""
    centre, width = (_first(stated.get(tag)) for tag in ("WindowCenter", "WindowWidth"))
    if centre is None or width is None:
        return None
    function = str(stated.get("VOILUTFunction", None) or "LINEAR").strip()
    if function not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        raise ValueError("unknown VOI LUT function")
    if not math.isfinite(centre) or not width >= (1 if function == "LINEAR" else 1e-9):
        raise ValueError("impossible window")
    return Window(centre, width, function)


def _first(values: Any) -> float | None:
    if values is None or values == "":
        return None
    if isinstance(values, list | tuple) or (hasattr(values, "__getitem__") and not isinstance(values, str | float)):
        values = values[0] if len(values) else None
    return None if values is None else float(values)


def _stored_range(stated: Dataset, values: np.ndarray) -> tuple[float, float, str]:
    """The lowest and highest value that the stored bits can hold; those of the data for floating-point pixels."""
    if values.dtype.kind == "f":
        return float(values.min()), float(values.max()), "the range of each picture's own values"
    bits = int(stated.get("BitsStored", 8 * values.dtype.itemsize))
    if values.dtype.kind == "i":
        return -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1, f"the range of {bits} stored bits"
    return 0.0, 2.0**bits - 1, f"the range of {bits} stored bits"
