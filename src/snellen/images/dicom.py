"""Decoding of DICOM files. Only what describes the pixels is read; no message quotes anything else of the file.

Headers hold names, dates of birth and the like. pydicom is asked for the elements in `_TAGS` alone, its warnings and log
are silenced while it reads, and texts of its errors, which may quote a header, are replaced by sentences of this module.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from snellen.errors import SnellenError
from snellen.images.geometry import Number
from snellen.images.limits import check_size
from snellen.images.reading import Reading
from snellen.images.samples import UnreadablePictureError

if TYPE_CHECKING:
    from pydicom import Dataset

SUFFIXES = frozenset({".dcm", ".dicom"})

_PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
_GROUPS = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
_TAGS = (
    "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "Rows", "Columns",
    "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", *_PIXELS,
    "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction",
    "VOILUTSequence", "ExtendedOffsetTable", "ExtendedOffsetTableLengths",
    "RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor",
    "BluePaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData", "GreenPaletteColorLookupTableData",
    "BluePaletteColorLookupTableData", "SegmentedRedPaletteColorLookupTableData",
    "SegmentedGreenPaletteColorLookupTableData", "SegmentedBluePaletteColorLookupTableData", *_GROUPS,
)  # fmt: skip

_KINDS = ("MONOCHROME1", "MONOCHROME2", "RGB", "YBR_", "PALETTE COLOR")
_UNCOMPRESSED = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")
_RESCALING = {"RescaleSlope": 1, "RescaleIntercept": 0}
"""Values with which nothing is rescaled."""
_DECODERS = "pylibjpeg[all]"
"""The package that decodes what pydicom and Pillow alone cannot."""


@dataclass(frozen=True)
class DecodedDicom:
    """The pixels of a DICOM file."""

    planes: tuple[Image.Image, ...]
    """One image in mode "L", "RGB" or "F"; three in mode "F" for colours with more than 8 bits."""
    size: tuple[int, int]
    """(width, height)."""


@dataclass(frozen=True)
class Window:
    """The values that become black and white (PS3.3 C.11.2.1.2 and C.11.2.1.3).

    >>> Window(2048, 4096)(np.array([-1.0, 0.0, 2047.5, 4095.0])).tolist()
    [0.0, 0.0, 0.5, 1.0]
    """

    centre: Number
    """The middle of the range, in rescaled values."""
    width: Number
    """The length of the range, in rescaled values."""
    function: str = "LINEAR"
    """The course between black and white: "LINEAR", "LINEAR_EXACT" or "SIGMOID"."""

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Pixels in [0, 1]."""
        if self.function == "SIGMOID":
            exponent = (-4 * (values - self.centre) / self.width).clip(-700, 700)
            return np.asarray(1 / (1 + np.exp(exponent)))
        centre, width = (self.centre - 0.5, self.width - 1) if self.function == "LINEAR" else (self.centre, self.width)
        if width == 0:
            return (values > centre).astype(np.float64)
        return ((values - centre) / width + 0.5).clip(0.0, 1.0)


def is_dicom(path: Path) -> bool:
    """Whether a file is DICOM by its name, or by its first bytes where its name has no ending, or a number as in UIDs."""
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return True
    if (suffix and not suffix[1:].isdecimal()) or path.name.upper() == "DICOMDIR" or not path.is_file():
        return False
    with contextlib.suppress(OSError), path.open("rb") as opened:
        return opened.read(132)[128:] == b"DICM"
    return False


def decode_dicom(path: Path, reading: Reading, content: io.BytesIO | None = None) -> DecodedDicom:
    """One frame of a DICOM file, or of its content, as pixels in [0, 1]: rescaled, windowed, and white for high values.

    Args:
        path: of the file; only for messages where there is `content`.
        reading: window and frame.
        content: what the file holds, such as a member of an archive.
    """
    name = f"'{path}'"
    if content is None and not path.is_file():
        problem = "is not an ordinary file and cannot be read" if path.exists() else "does not exist"
        raise UnreadablePictureError(f"{name} {problem}")
    try:
        with _silent():
            header = _header(content or path, name)
            frame = _frame(header, reading, name)
            values = _values(header, frame, name)
            return _pixels(header, values, frame, reading, name)
    except SnellenError:
        raise
    except Exception:  # pydicom raises almost anything on damaged files, with texts that may quote the header
        raise UnreadablePictureError(f"{name} is damaged and cannot be read as DICOM") from None


def unwindowed_range(path: Path, reading: Reading, content: io.BytesIO | None = None) -> tuple[float, float] | None:
    """The values that become black and white where neither the file nor the user states a window; None otherwise.

    Read from the header of a file that can be decoded.
    """
    if reading.window is not None:
        return None
    import pydicom

    with _silent(), contextlib.suppress(Exception):
        header = pydicom.dcmread(content or path, specific_tags=list(_TAGS), stop_before_pixels=True)
        stated = _with_groups(header, (reading.frame or 1) - 1)
        grey = str(header.PhotometricInterpretation).startswith("MONOCHROME")
        if grey and _window(stated) is None and not stated.get("VOILUTSequence"):
            return _full_range(stated)
    return None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Drops the warnings of pydicom and what its loggers, such as pydicom.pixels, write."""
    log = logging.getLogger("pydicom")
    before = log.handlers, log.propagate
    log.handlers, log.propagate = [logging.NullHandler()], False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.handlers, log.propagate = before


def _header(content: Path | io.BytesIO, name: str) -> Dataset:
    """The elements that describe pixels, and the pixels as they are stored."""
    try:
        import pydicom
    except ImportError:
        raise SnellenError(f"{name} is a DICOM file, which needs pydicom; install snellen[medical]") from None
    with content.open("rb") if isinstance(content, Path) else contextlib.nullcontext(content) as opened:
        opened.seek(0)
        if opened.read(132)[128:] != b"DICM":
            raise UnreadablePictureError(f"{name} is not a DICOM file, although its name says so")
        meta = pydicom.filereader.read_dataset(opened, False, True, stop_when=lambda tag, *_: tag.group != 2)
        if meta.get("TransferSyntaxUID") == pydicom.uid.DeflatedExplicitVRLittleEndian:
            # It is unpacked as a whole, before anything says how large it is.
            raise UnreadablePictureError(f"{name} is a deflated DICOM file; save it without the deflated transfer syntax")
        opened.seek(0)
        header = pydicom.dcmread(opened, specific_tags=list(_TAGS))
    if not any(tag in header for tag in _PIXELS):
        raise UnreadablePictureError(f"{name} is a DICOM file without pixels, such as a report; remove it")
    if "TransferSyntaxUID" not in header.file_meta:
        raise UnreadablePictureError(f"{name} is damaged: its header does not state a transfer syntax")
    rows, columns = header.get("Rows"), header.get("Columns")
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise UnreadablePictureError(f"{name} is damaged: its header does not state rows and columns")
    check_size(columns, rows, name)
    stored, highest = header.get("BitsStored"), header.get("HighBit")
    shifted = isinstance(stored, int) and isinstance(highest, int) and highest != stored - 1
    if shifted and header.file_meta.TransferSyntaxUID in _UNCOMPRESSED:
        raise UnreadablePictureError(
            f"{name} holds its {stored} bits in another place than the lowest (its high bit is {highest}), which "
            "is not read; save it again with the values in the lowest bits"
        )
    if not _kind(header).startswith(_KINDS):
        raise UnreadablePictureError(
            f"{name} holds pixels of another kind than {', '.join(_KINDS)}; convert it to one of them"
        )
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
        holding = "1 frame" if count == 1 else f"{count} frames"
        raise UnreadablePictureError(f"{name} holds {holding}, but --frame is {reading.frame}")
    return (reading.frame or 1) - 1


def _values(header: Dataset, frame: int, name: str) -> np.ndarray:
    """The stored values of a frame; colours as RGB."""
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.pixels.utils import pixel_array

    syntax = header.file_meta.TransferSyntaxUID
    compressed = syntax not in _UNCOMPRESSED
    if compressed:
        kind = syntax.name if syntax.is_transfer_syntax and not syntax.is_private else "an unknown method"
        remedy = f"install {_DECODERS}, or save it without compression"
        if kind.startswith(("MPEG", "HEVC")):
            remedy = "save the frame to use without compression"
        try:
            available = get_decoder(syntax).is_available
        except NotImplementedError:
            available = False
        if not available:
            raise UnreadablePictureError(f"{name} is compressed with {kind}, which cannot be decoded here; {remedy}")
        _check_compressed_size(header, frame, name)
    try:
        return np.asarray(pixel_array(header, index=frame))
    except Exception:
        if compressed:
            problem = f"is compressed with {kind}, and is damaged or of a kind that cannot be decoded here; {remedy}"
            raise UnreadablePictureError(f"{name} {problem}") from None
        raise UnreadablePictureError(f"{name} is damaged: its pixels do not fit its header") from None


def _check_compressed_size(header: Dataset, frame: int, name: str) -> None:
    """Refuses a JPEG inside the file that is larger than the header says: the limits were checked for the header."""
    from pydicom.encaps import get_frame

    try:
        data = get_frame(header.PixelData, frame, number_of_frames=int(header.get("NumberOfFrames", None) or 1))
        with Image.open(io.BytesIO(data), formats=("JPEG", "JPEG2000")) as opened:
            size = opened.size
    except Exception:  # another kind of compression, or damaged, which its decoder reports
        return
    if size != (header.Columns, header.Rows):
        raise UnreadablePictureError(f"{name} is damaged: its pixels do not fit its header")


def _kind(header: Dataset) -> str:
    return str(header.get("PhotometricInterpretation", "")).strip()


def _pixels(header: Dataset, values: np.ndarray, frame: int, reading: Reading, name: str) -> DecodedDicom:
    kind = _kind(header)
    size = (int(header.Columns), int(header.Rows))
    if kind == "PALETTE COLOR":
        from pydicom.pixels.processing import apply_color_lut

        try:
            values = apply_color_lut(values, header)
        except Exception:
            raise UnreadablePictureError(f"{name} has palette colours, but its palette cannot be read") from None
        return _colours(values, 8 * values.dtype.itemsize, size, reading, name)
    if kind.startswith(("RGB", "YBR_")):  # pydicom converts the latter
        return _colours(values, int(header.get("BitsStored", 8)), size, reading, name)
    try:
        pixels = _grey(header, values, frame, reading)
    except Exception:
        raise UnreadablePictureError(
            f"{name} states a rescaling or window that cannot be used; state one with --window centre,width"
        ) from None
    if pixels is None:
        raise UnreadablePictureError(
            f"{name} holds floating-point values and no window; state one with --window centre,width"
        )
    if not np.isfinite(pixels).all():
        raise UnreadablePictureError(f"{name} holds pixels that are not numbers")
    if kind == "MONOCHROME1":
        pixels = 1 - pixels
    return DecodedDicom((Image.fromarray(pixels.astype(np.float32)),), size)


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


def _grey(header: Dataset, values: np.ndarray, frame: int, reading: Reading) -> np.ndarray | None:
    """Pixels in [0, 1]; None for floating-point values without a window, whose range is unknown."""
    from pydicom.pixels.processing import apply_modality_lut, apply_voi

    stated = _with_groups(header, frame)
    rescaled = np.asarray(apply_modality_lut(values, stated))
    window = Window(*reading.window) if reading.window is not None else _window(stated)
    if window is not None:
        return window(rescaled.astype(np.float64))
    if stated.get("VOILUTSequence"):
        bits = int(stated.VOILUTSequence[0].LUTDescriptor[2])
        return np.asarray(apply_voi(rescaled, stated) / np.float64(2**bits - 1)).clip(0.0, 1.0)
    if values.dtype.kind == "f":
        return None
    low, high = _full_range(stated)
    return ((rescaled - low) / (high - low)).clip(0.0, 1.0)


def _full_range(stated: Dataset) -> tuple[float, float]:
    """The lowest and highest value that the stored bits, or the lookup table of the file, can hold."""
    if stated.get("ModalityLUTSequence"):
        return 0.0, 2.0 ** int(stated.ModalityLUTSequence[0].LUTDescriptor[2]) - 1
    bits = int(stated.BitsStored)
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if stated.PixelRepresentation == 1 else (0.0, 2.0**bits - 1)
    slope, intercept = (float(stated.get(tag, default)) for tag, default in _RESCALING.items())
    if not slope or not math.isfinite(slope * high + intercept):
        raise ValueError("impossible rescaling")
    low, high = sorted((low * slope + intercept, high * slope + intercept))
    return low, high


def _with_groups(header: Dataset, frame: int) -> Dataset:
    """The header with rescaling and window of one frame, which newer files state in groups per frame or for all frames."""
    from pydicom import Dataset as Elements

    stated = Elements()
    stated.file_meta = header.file_meta  # which says in which order lookup tables have their bytes
    for element in header:
        if element.keyword not in (*_PIXELS, *_GROUPS):
            stated.add(element)
    for sequence, place in zip(_GROUPS, (0, frame), strict=True):
        groups = header.get(sequence) or []
        if place >= len(groups):
            continue
        for part in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
            for element in (groups[place].get(part) or [()])[0]:
                stated.add(element)
    for tag, default in _RESCALING.items():  # the file may state one of them, or leave it empty
        if stated.get(tag) is None and any(stated.get(other) is not None for other in _RESCALING):
            setattr(stated, tag, default)
        elif stated.get(tag) is None and tag in stated:
            delattr(stated, tag)
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
    if isinstance(values, Sequence):  # the text of an empty element, too
        values = values[0] if len(values) else None
    return None if values is None else float(values)
