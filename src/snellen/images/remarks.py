"""Remarks on stored pictures: options that none of them would use, and what a user should know about how they are read."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from snellen.errors import SnellenError
from snellen.images import dicom, planes
from snellen.images.decoding import brightest_of_16_bits, frames, has_unused_channels, is_deep
from snellen.images.reading import Reading

DARK = 0.25
"""Share of 65535 that 14-bit data fills; 16-bit images that do not exceed it are mentioned in a note."""

DARK_CHECKED = 20
"""Number of 16-bit images that are checked for dark values."""


@dataclass(frozen=True)
class StoredPicture:
    """A picture in a file, or in an archive."""

    id: str
    """How notes and messages name it."""
    path: Path
    """Its name says which kind of file it is."""
    read: Callable[[], bytes] | None = None
    """What it holds, where it is not a file."""

    def content(self) -> io.BytesIO | None:
        """What it holds, where it is not a file."""
        return None if self.read is None else io.BytesIO(self.read())


def remarks(pictures: Sequence[StoredPicture], reading: Reading, channels: int) -> tuple[str, ...]:
    """Notes about pictures that can be read."""
    plain = channels in (1, 3)
    pictures = [picture for picture in pictures if picture.path.suffix.lower() not in (".jpg", ".jpeg")]  # nothing to say
    notes = (
        _first_frames(pictures) if reading.frame is None and plain else None,
        _unused_channels(pictures) if plain else None,
        _dark(pictures) if reading.range is None and plain else None,
        _unwindowed(pictures, reading),
    )
    return tuple(note for note in notes if note is not None)


def check_reading(pictures: Sequence[StoredPicture], reading: Reading) -> None:
    """Refuses a window or range that none of the files would use."""
    if reading.window is not None and not any(dicom.is_dicom(picture.path) for picture in pictures):
        raise SnellenError(f"--window is for DICOM files, but there are none, such as '{pictures[0].id}'; leave it out")
    if reading.range is None:
        return
    others = [picture for picture in pictures if not dicom.is_dicom(picture.path)]
    if not others:
        raise SnellenError(f"--range is for PNG, TIFF and .npy files, but '{pictures[0].id}' is DICOM; give --window")
    if not any(picture.path.suffix.lower() in planes.ARRAYS or _is_deep(picture) for picture in others):
        raise SnellenError(
            f"--range is for pictures with more than 8 bits per channel, but '{others[0].id}' has 8; leave it out"
        )


def _is_deep(picture: StoredPicture) -> bool:
    """Whether a file has more than 8 bits per channel, as far as its header can be read."""
    try:
        return is_deep(picture.path, picture.content())
    except Exception:  # Pillow cannot open all files with many channels; what is damaged is reported when it is read
        return True


def _first_frames(pictures: Sequence[StoredPicture]) -> str | None:
    """A note if only the first of several frames is used."""
    animated = [picture.id for picture in pictures if frames(picture.path, picture.content()) > 1]
    if not animated:
        return None
    which = f"'{animated[0]}' holds" if len(animated) == 1 else f"'{animated[0]}' and {len(animated) - 1} more hold"
    return f"{which} several frames; only the first is used"


def _unused_channels(pictures: Sequence[StoredPicture]) -> str | None:
    """A note if only the first channels are used."""
    partly = [picture.id for picture in pictures if has_unused_channels(picture.path, picture.content())]
    if not partly:
        return None
    which = f"'{partly[0]}' has" if len(partly) == 1 else f"'{partly[0]}' and {len(partly) - 1} more have"
    return f"{which} further channels, which are not used"


def _unwindowed(pictures: Sequence[StoredPicture], reading: Reading) -> str | None:
    """A note if DICOM files state no window."""
    medical = [picture for picture in pictures if dicom.is_dicom(picture.path)]
    ends = [dicom.unwindowed_range(picture.path, reading, picture.content()) for picture in medical]
    missing = [(picture.id, shown) for picture, shown in zip(medical, ends, strict=True) if shown is not None]
    if not missing:
        return None
    first, (low, high) = missing[0]
    which = f"'{first}' has" if len(missing) == 1 else f"'{first}' and {len(missing) - 1} more have"
    return (
        f"{which} no window, so black to white are all values that the file can hold, {low:g} to {high:g} in '{first}'; "
        "state --window centre,width if they use fewer"
    )


def _dark(pictures: Sequence[StoredPicture]) -> str | None:
    """A note if the values of the first 16-bit files would all fit into fewer bits; None otherwise."""
    deep = ((picture, brightest_of_16_bits(picture.path, picture.content())) for picture in pictures)
    measured = list(islice(((picture, share) for picture, share in deep if share is not None), DARK_CHECKED))
    brightest = max((share for _, share in measured), default=1.0)
    if brightest > DARK or brightest == 0:
        return None
    unused = math.floor(-math.log2(brightest) + 1e-3)  # 4095 / 65535 is slightly more than 2 to the power of -4
    first = measured[0][0].id
    which = f"'{first}' uses" if len(measured) == 1 else f"'{first}' and {len(measured) - 1} more use"
    return (
        f"{which} only the darkest 1/{2**unused} of the 16-bit range, like {16 - unused}-bit data that was saved without "
        f"scaling; multiply their values by {2**unused}, or state --range 0,{2 ** (16 - unused) - 1}, unless the classifier "
        "was trained on such dark pictures"
    )
