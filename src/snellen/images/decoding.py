"""Decoding of image files; a file that cannot be used raises an error that says why."""

from __future__ import annotations

import contextlib
import io
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from snellen.errors import SnellenError, first_line
from snellen.images.limits import MOST_PIXELS, SMALLEST, too_large
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import UnreadablePictureError

SUFFIXES = frozenset(
    {
        ".apng", ".avif", ".bmp", ".dib", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png",
        ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp",
    }
)  # fmt: skip
"""Endings of image files; other files in a folder are ignored and counted."""

FORMATS = ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "DIB", "PPM", "TGA", "JPEG2000", "AVIF")
"""Formats that Pillow may decode, whatever the file's name; others start programs (EPS) or contain several images (ICO)."""

_DEEP = (".png", ".apng", ".tif", ".tiff", ".pgm", ".ppm", ".pnm", ".jp2")
"""Endings of files that may have 16 bits per channel."""

_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""The first bytes of TIFF and BigTIFF files."""

_SAMPLES_PER_PIXEL, _PHOTOMETRIC = 277, 262
"""TIFF's numbers of the tags."""

_WHITE_IS_ZERO = 0
"""TIFF's photometric interpretation of grey values that Pillow inverts for 8 bits, but not for more."""


@dataclass(frozen=True)
class Decoded:
    """A decoded image."""

    image: Image.Image
    """Upright, in mode "L", "RGB" or "F" (greyscale in [0, 1])."""
    size: tuple[int, int]
    """(width, height) before any reduction."""


def decode(
    path: str | Path,
    *,
    content: io.BytesIO | None = None,
    at_least: tuple[int, int] | None = None,
    reading: Reading = AS_STORED,
) -> Decoded:
    """One frame of an image file, turned upright, transparent parts on white, colour profiles ignored.

    A JPEG that is much larger than `at_least` (width, height) is reduced while it is read.

    Args:
        path: of the file; only for messages where there is `content`.
        content: what the file holds, such as a member of an archive.
        at_least: how much of a JPEG is needed.
        reading: range and frame.
    """
    path = Path(path)
    with _sentences(path):
        size = path.stat().st_size if content is None else content.getbuffer().nbytes
        if size == 0 and (content is not None or path.is_file()):
            raise UnreadablePictureError(f"'{path}' is empty (0 bytes)")
        with _opened(path, content) as opened:
            return _read(opened, path, at_least, reading)


@contextlib.contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Whatever a decoder raises, as a sentence."""
    try:
        yield
    except UnreadablePictureError:
        raise
    except Image.DecompressionBombError:
        raise too_large(f"'{path}'") from None
    except UnidentifiedImageError:
        raise UnreadablePictureError(f"'{path}' is not a picture that can be read") from None
    except FileNotFoundError:
        raise UnreadablePictureError(f"there is no file '{path}'") from None
    except Exception as problem:  # decoders raise almost anything on damaged files
        raise UnreadablePictureError(f"'{path}' is damaged and cannot be read ({first_line(problem)})") from None


def size_of(path: str | Path) -> tuple[int, int]:
    """Width and height of the upright image, from the file's header."""
    with _opened(Path(path)) as opened:
        width, height = opened.size
        return (height, width) if _is_sideways(opened) else (width, height)


def frames(path: str | Path, content: io.BytesIO | None = None) -> int:
    """Number of frames of an animation or multi-page file, from its header; 1 for other files."""
    if Path(path).suffix.lower() not in (".gif", ".png", ".apng", ".webp", ".tif", ".tiff", ".avif"):
        return 1
    # A file whose first frame can be decoded may be damaged after it; the rest is not used.
    with contextlib.suppress(Exception), _opened(Path(path), content) as opened:
        return int(getattr(opened, "n_frames", 1))
    return 1


def can_open(path: Path, content: io.BytesIO | None = None) -> bool:
    """Whether Pillow takes a TIFF file; it does not know all ways to store channels. True for damaged files of any kind."""
    try:
        with _opened(path, content) as opened:
            return opened.mode != "F" or not _has_unused_channels(opened)
    except UnidentifiedImageError:
        with contextlib.nullcontext(content) if content is not None else path.open("rb") as opened:
            opened.seek(0)
            return opened.read(4) not in _TIFF_STARTS
    except Exception:  # which decode turns into a sentence
        return True


def has_unused_channels(path: str | Path, content: io.BytesIO | None = None) -> bool:
    """Whether a TIFF file has more channels than are decoded, from its header."""
    if Path(path).suffix.lower() not in (".tif", ".tiff"):
        return False
    with contextlib.suppress(Exception), _opened(Path(path), content) as opened:
        return opened.mode != "F" and _has_unused_channels(opened)
    return False


def _has_unused_channels(opened: Image.Image) -> bool:
    return int(getattr(opened, "tag_v2", {}).get(_SAMPLES_PER_PIXEL, 1)) > len(opened.getbands())


def is_deep(path: str | Path, content: io.BytesIO | None = None) -> bool:
    """Whether an image has more than 8 bits per channel, from its header."""
    if Path(path).suffix.lower() not in _DEEP:
        return False
    with _opened(Path(path), content) as opened:
        return _has_deep_mode(opened) or ";16" in str(getattr(opened, "tile", ""))


def brightest_of_16_bits(path: str | Path, content: io.BytesIO | None = None) -> float | None:
    """The largest value of an image with 16 bits per channel, as a share of 65535; None for other images."""
    if Path(path).suffix.lower() not in _DEEP or not can_open(Path(path), content):
        return None
    with _opened(Path(path), content) as opened:
        if opened.mode not in ("I", "I;16", "I;16B") and ";16" not in str(getattr(opened, "tile", "")):
            return None
    values = np.asarray(decode(path, content=content).image)
    return float(values.max()) / (1.0 if values.dtype == np.float32 else 255.0)


def decode_mask(path: str | Path, content: io.BytesIO | None = None) -> np.ndarray:
    """The pixels of a mask file that are not zero; for a JPEG, which blurs edges, those above 127.

    Args:
        path: of the file; only for messages where there is `content`.
        content: what the file holds, where it is not on disk.
    """
    path = Path(path)
    lossy = path.suffix.lower() in (".jpg", ".jpeg", ".jpe", ".jfif")
    try:
        with _opened(path, content) as opened:
            _check_size(opened, path)
            image = ImageOps.exif_transpose(opened)
            if image.mode not in ("L", "1", "P", "I", "F") and not image.mode.startswith("I;16"):
                image = image.convert("RGB").convert("L")
            values = np.array(image)
    except Exception as problem:
        raise SnellenError(f"the mask '{path}' cannot be read ({first_line(problem)})") from None
    marked: np.ndarray = values > (127 if lossy else 0)
    return marked


@contextlib.contextmanager
def _opened(path: Path, content: io.BytesIO | None = None) -> Iterator[Image.Image]:
    """The file, or its content, as Pillow opens it, with only its header read."""
    if content is None and not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
        raise UnreadablePictureError(f"'{path}' is not an ordinary file and cannot be read")
    # Pillow warns about odd metadata and large images; neither changes what is decoded.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(content or path, formats=FORMATS) as opened:
            yield opened


def _is_sideways(opened: Image.Image) -> bool:
    return opened.getexif().get(ExifTags.Base.Orientation) in (5, 6, 7, 8)


def _check_size(opened: Image.Image, path: Path) -> None:
    if opened.width * opened.height > MOST_PIXELS:
        raise too_large(f"'{path}'")


def _has_deep_mode(image: Image.Image) -> bool:
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def _read(opened: Image.Image, path: Path, at_least: tuple[int, int] | None, reading: Reading) -> Decoded:
    if reading.frame is not None:
        _choose_frame(opened, path, reading.frame)
    width, height = opened.size
    if min(width, height) < SMALLEST:
        raise UnreadablePictureError(f"'{path}' is {width}×{height} pixels; a picture needs at least {SMALLEST}×{SMALLEST}")
    if at_least is not None and opened.format == "JPEG":
        opened.draft(None, at_least[::-1] if _is_sideways(opened) else at_least)
    _check_size(opened, path)  # first, because reading the orientation of a PNG unpacks all of it
    if reading.range is not None and not _has_deep_mode(opened) and ";16" in str(getattr(opened, "tile", "")):
        raise UnreadablePictureError(
            f"'{path}' has colours with 16 bits, which are read with 8; to use --range, save it as .npy"
        )
    sideways = _is_sideways(opened)
    inverted = _has_deep_mode(opened) and getattr(opened, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO
    opened.load()
    ImageOps.exif_transpose(opened, in_place=True)
    image = _plain(opened, path, reading)
    if inverted:
        image = Image.fromarray(np.float32(1) - np.asarray(image))
    return Decoded(image, (height, width) if sideways else (width, height))


def _choose_frame(opened: Image.Image, path: Path, frame: int) -> None:
    count = int(getattr(opened, "n_frames", 1))
    if frame > count:
        holding = "1 frame" if count == 1 else f"{count} frames"
        raise UnreadablePictureError(f"'{path}' holds {holding}, but --frame is {frame}")
    if frame > 1:
        _check_size(opened, path)  # to reach a frame of an animation, those before it are decoded
        opened.seek(frame - 1)


def plain_image(image: Image.Image, name: str) -> Image.Image:
    """A decoded image in mode "L", "RGB" or "F" (greyscale in [0, 1]), with transparent parts on white."""
    return _plain(image, Path(name), AS_STORED)


def _plain(image: Image.Image, path: Path, reading: Reading) -> Image.Image:
    """The image in mode "L", "RGB" or "F"."""
    if reading.range is not None and _has_deep_mode(image):
        stored = np.array(image)
        if not np.isfinite(stored).all():
            raise UnreadablePictureError(f"'{path}' holds NaN or infinite values")
        return Image.fromarray(reading.scale(stored))
    if image.mode in ("L", "RGB"):
        if "transparency" in image.info:
            return _on_white(image)
        return image.copy()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM", None)):
        return Image.fromarray(np.array(image).astype(np.float32) / 65535.0)
    if image.mode in ("I", "F"):
        values = np.array(image).astype(np.float32)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
            raise UnreadablePictureError(
                f"'{path}' holds 32-bit numbers whose range is unknown; state it with --range, such as --range 0,4095"
            )
        return Image.fromarray(values)
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("LA", "La", "RGBA", "RGBa", "PA") or "transparency" in image.info:
        return _on_white(image)
    return image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    """The image on a white background, some rows at a time: three copies of a large image would take a gigabyte."""
    width, height = image.size
    canvas = Image.new("RGB", image.size)
    for top in range(0, height, 256):
        rows = image.crop((0, top, width, min(top + 256, height))).convert("RGBA")
        white = Image.new("RGBA", rows.size, (255, 255, 255, 255))
        canvas.paste(Image.alpha_composite(white, rows).convert("RGB"), (0, top))
    return canvas
