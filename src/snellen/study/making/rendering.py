"""Draws maps as pictures, in the same way for every arm, so that participants compare maps and not ways of drawing.

Every map is drawn in the same colours, from dark to light, by the same rule for its scale. Only evidence for the model's
prediction is drawn: a map that also shows evidence against it would need other colours, another legend and another
explanation than the others. What differs on purpose is the presentation, a factor of the study.
"""

from __future__ import annotations

import io
import math

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageColor
from torch import Tensor

from snellen.charts import colours, pictures

LEAST, MOST = 320, 640
"""The least and the greatest length of the longer side of a photograph or map, in pixels."""
GAP = 16
"""Between a photograph and a map side by side, in pixels."""
PHOTOGRAPH, GREY = "photograph", "grey photograph"
"""What the arm without explanation sees: the photograph, or the grey copy that all others see under their maps."""

_PIXELS = 128
"""Images with sides of up to so many pixels are enlarged as squares; larger ones smoothly."""
_QUALITY = 82
"""Of WebP files; for lossless ones it only says how hard the encoder tries to make a small file."""

Rgb = UInt8[np.ndarray, "height width 3"]
Enlarged = UInt8[np.ndarray, "rows columns 3"]


def photograph(image: Float[Tensor, "channels height width"]) -> Rgb:
    """An image of the run as eight-bit colours."""
    pixels = (255 * image).round().clamp(0, 255).byte().permute(1, 2, 0).cpu().numpy()
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)


def picture(photo: Rgb, values: Float[np.ndarray, "height width"] | None, presentation: str) -> Enlarged:
    """The picture that participants see.

    Args:
        photo: The photograph.
        values: Its map; None where there is none.
        presentation: Overlay, side-by-side, map, or one of `PHOTOGRAPH` and `GREY`, which have no map.
    """
    return _side_by_side([_enlarge(panel) for panel in _panels(photo, values, presentation)])


def _panels(photo: Rgb, values: Float[np.ndarray, "height width"] | None, presentation: str) -> list[Rgb]:
    if presentation == GREY:
        return [pictures.overlay(photo, np.zeros(photo.shape[:2], dtype=np.float32), False, (0.0, 0.0))]
    if presentation == PHOTOGRAPH or values is None:
        return [photo]
    evidence = np.maximum(values, 0)
    ends = pictures.limits(evidence, signed=False)
    if presentation == "overlay":
        return [pictures.overlay(photo, evidence, False, ends)]
    alone = pictures.tile(evidence, False, ends)
    return [photo, alone] if presentation == "side-by-side" else [alone]


def _enlarge(panel: Rgb) -> Enlarged:
    """Enlarged by a whole number to at least `LEAST`, so that small things can be seen; shrunk to at most `MOST`."""
    longest = max(panel.shape[:2])
    if longest >= LEAST:
        return pictures.shrink(panel, MOST)
    times = math.ceil(LEAST / longest)
    resampling = Image.Resampling.NEAREST if longest <= _PIXELS else Image.Resampling.LANCZOS
    return np.asarray(Image.fromarray(panel).resize((panel.shape[1] * times, panel.shape[0] * times), resampling))


def _side_by_side(panels: list[Enlarged]) -> UInt8[np.ndarray, "rows _ 3"]:
    if len(panels) == 1:
        return panels[0]
    gap = np.full((panels[0].shape[0], GAP, 3), ImageColor.getrgb(colours.PAPER), dtype=np.uint8)
    return np.concatenate([panels[0], gap, panels[1]], axis=1)


def encoded(enlarged: Enlarged, photo: Rgb) -> bytes:
    """A picture as a WebP file without metadata; lossless where `photo` is so small that its pixels can be seen."""
    exact = max(photo.shape[:2]) <= _PIXELS
    out = io.BytesIO()
    Image.fromarray(enlarged).save(out, "WEBP", lossless=exact, quality=_QUALITY, method=4)
    return out.getvalue()
