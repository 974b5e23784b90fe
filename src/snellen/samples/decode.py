"""Opens a picture file, whatever it holds, or says in one sentence why not."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from snellen.errors import SnellenError
from snellen.samples.samples import UnreadablePictureError

SUFFIXES = frozenset(
    {
        ".apng", ".avif", ".bmp", ".dib", ".gif", ".ico", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png",
        ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp",
    }
)  # fmt: skip
"""File names that are taken for pictures; other files in a folder are ignored and counted."""

SMALLEST = 2
"""Pixels that each side needs: on a single pixel there is nothing to point at."""

_SIDEWAYS = (5, 6, 7, 8)


@dataclass(frozen=True)
class Decoded:
    """A picture in mode "L", "RGB" or "F" (grey in [0, 1]), upright; `size` is (width, height) before any reduction."""

    image: Image.Image
    size: tuple[int, int]


def decode(path: str | Path, *, at_least: tuple[int, int] | None = None) -> Decoded:
    """The first frame of a picture file, turned upright, transparent parts on white, colour profiles ignored.

    A JPEG that is far larger than `at_least` (width, height) is reduced while it is read.
    """
    path = Path(path)
    try:
        if path.stat().st_size == 0:
            raise UnreadablePictureError(f"'{path}' is empty (0 bytes)")
        # Pillow warns of odd metadata and of pictures near its size limit; neither changes what is decoded.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as opened:
                return _read(opened, path, at_least)
    except UnreadablePictureError:
        raise
    except Image.DecompressionBombError:
        raise UnreadablePictureError(f"'{path}' is larger than {_limit()} million pixels; make it smaller first") from None
    except UnidentifiedImageError:
        raise UnreadablePictureError(f"'{path}' is not a picture that can be read") from None
    except FileNotFoundError:
        raise UnreadablePictureError(f"there is no file '{path}'") from None
    except Exception as problem:  # decoders raise almost anything on damaged files
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise UnreadablePictureError(f"'{path}' is damaged and cannot be read ({reason})") from None


def frames(path: str | Path) -> int:
    """How many frames an animation or many-page file holds, from its header; 1 for every other file."""
    if Path(path).suffix.lower() not in (".gif", ".png", ".apng", ".webp", ".tif", ".tiff", ".avif"):
        return 1
    # A file whose first frame could be decoded may still be damaged behind it; what lies there is not used.
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        with Image.open(path) as opened:
            return int(getattr(opened, "n_frames", 1))
    return 1


def decode_mask(path: str | Path) -> np.ndarray:
    """Which pixels a mask file marks: all that are not zero (in a JPEG, which blurs edges: brighter than half)."""
    path = Path(path)
    lossy = path.suffix.lower() in (".jpg", ".jpeg", ".jpe", ".jfif")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as opened:
                image = ImageOps.exif_transpose(opened)
                if image.mode not in ("L", "1", "P", "I", "F") and not image.mode.startswith("I;16"):
                    image = image.convert("RGB").convert("L")
                values = np.array(image)
    except Exception as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise SnellenError(f"the mask '{path}' cannot be read ({reason})") from None
    marked: np.ndarray = values > (127 if lossy else 0)
    return marked


def _read(opened: Image.Image, path: Path, at_least: tuple[int, int] | None) -> Decoded:
    width, height = opened.size
    if min(width, height) < SMALLEST:
        raise UnreadablePictureError(f"'{path}' is {width}×{height} pixels; a picture needs at least {SMALLEST}×{SMALLEST}")
    sideways = opened.getexif().get(ExifTags.Base.Orientation) in _SIDEWAYS
    if at_least is not None and opened.format == "JPEG":
        wanted = at_least[::-1] if sideways else at_least
        opened.draft(None, wanted)
    opened.load()
    image = _plain(ImageOps.exif_transpose(opened), path)
    return Decoded(image, (height, width) if sideways else (width, height))


def _plain(image: Image.Image, path: Path) -> Image.Image:
    """The same picture as "L", "RGB" or "F"."""
    if image.mode in ("L", "RGB"):
        if "transparency" in image.info:
            return _on_white(image.convert("RGBA"))
        return image.copy()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM", None)):
        return Image.fromarray(np.array(image).astype(np.float32) / 65535.0)
    if image.mode in ("I", "F"):
        values = np.array(image).astype(np.float32)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
            raise UnreadablePictureError(
                f"'{path}' holds 32-bit numbers whose range is unknown; save it with 8 or 16 bits per channel"
            )
        return Image.fromarray(values)
    if image.mode == "1":
        return image.convert("L")
    if image.mode in ("LA", "La", "RGBA", "RGBa", "PA") or "transparency" in image.info:
        return _on_white(image.convert("RGBA"))
    return image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image).convert("RGB")


def _limit() -> int:
    return round(2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6)
