"""Maps as pictures: two colour scales, the same for every method, and the contact sheet of `snellen explain`."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw, ImageFont

from snellen.charts.colours import INK, LINE, PAPER, SOFT

ColourLimits = tuple[float, float]

PERCENTILE = 99.5
"""The percentile at which the colour scale of a map ends; otherwise a few extreme pixels would leave the rest dark."""

LEGEND = (
    "Every map has its own scale, because the units of methods differ; the rule is the same for all. Unsigned maps run from "
    "the map's smallest value (dark) to its 99.5th percentile (light). Signed maps have white at zero, red for evidence in "
    "favour and blue for evidence against, both ending at the 99.5th percentile of the magnitude. Over the photo, the map "
    "covers a grey copy of it, the more the stronger the value."
)

_DARK_TO_LIGHT = ((4, 3, 16), (42, 17, 88), (96, 24, 124), (152, 45, 122), (207, 70, 104), (244, 116, 88), (253, 181, 122),
                  (254, 248, 208))  # fmt: skip
_WHITE_TO_RED = ((255, 255, 255), (248, 196, 172), (222, 112, 86), (178, 32, 44), (104, 8, 30))
_WHITE_TO_BLUE = ((255, 255, 255), (176, 210, 234), (92, 158, 204), (38, 102, 168), (10, 48, 98))


def lightness(colours: UInt8[np.ndarray, "*any 3"]) -> Float[np.ndarray, "*any"]:
    """CIE L* of sRGB colours, 0 for black to 100 for white."""
    share = colours.astype(np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126, 0.7152, 0.0722])
    light: np.ndarray = np.where(luminance > 216 / 24389, 116 * np.cbrt(luminance) - 16, luminance * 24389 / 27)
    return light


def _evenly_light(anchors: Sequence[tuple[int, int, int]], end: float | None = None) -> UInt8[np.ndarray, "256 3"]:
    """A table of 256 colours through the anchors, whose lightness changes by the same amount in every step."""
    places = np.linspace(0, 1, len(anchors))
    fine = np.linspace(0, 1, 4096)
    path = np.stack([np.interp(fine, places, [anchor[channel] for anchor in anchors]) for channel in range(3)], axis=1)
    light = lightness(np.round(path).astype(np.uint8))
    rising = light if light[-1] > light[0] else -light
    rising = np.maximum.accumulate(rising)
    stop = rising[-1] if end is None else (end if light[-1] > light[0] else -end)
    targets = np.linspace(rising[0], stop, 256)
    return np.stack([np.round(np.interp(targets, rising, path[:, channel])) for channel in range(3)], axis=1).astype(
        np.uint8
    )


# Both arms end at the same lightness, so that neither sign looks stronger than the other.
SEQUENTIAL = _evenly_light(_DARK_TO_LIGHT)
POSITIVE = _evenly_light(_WHITE_TO_RED, end=25.0)
NEGATIVE = _evenly_light(_WHITE_TO_BLUE, end=25.0)
_UNDEFINED_COLOUR = (150, 150, 150)


def limits(values: Float[np.ndarray, "height width"], signed: bool) -> ColourLimits:
    """The values at which the colour scale of this map begins and ends (see `LEGEND`)."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return (0.0, 0.0)
    strength = np.abs(finite) if signed else finite
    low = 0.0 if signed else float(strength.min())
    high = float(np.percentile(strength, PERCENTILE))
    # A map with a few bright pixels has its percentile at the bottom; then its largest value is the end.
    high = high if high > low else float(strength.max())
    return (-high, high) if signed else (low, high)


def tile(
    values: Float[np.ndarray, "height width"], signed: bool, limits: ColourLimits
) -> UInt8[np.ndarray, "height width 3"]:
    """The map alone, in colour; a value that is not a number is grey."""
    strength = _strength(values, signed, limits)
    steps = np.round(strength * 255).astype(np.intp)
    coloured = np.where((values >= 0)[..., None], POSITIVE[steps], NEGATIVE[steps]) if signed else SEQUENTIAL[steps]
    picture = coloured.astype(np.uint8)
    picture[~np.isfinite(values)] = _UNDEFINED_COLOUR
    return picture


def overlay(
    photo: UInt8[np.ndarray, "height width 3"], values: Float[np.ndarray, "height width"], signed: bool, limits: ColourLimits
) -> UInt8[np.ndarray, "height width 3"]:
    """The map over a grey copy of the photo: the stronger the value, the more the map covers."""
    # A matrix product would round by the memory layout of the photo.
    grey = 0.299 * photo[..., 0] + 0.587 * photo[..., 1] + 0.114 * photo[..., 2]
    base = np.repeat(grey[..., None], 3, axis=2)
    cover = 0.9 * _strength(values, signed, limits)[..., None]
    blend: np.ndarray = np.round(base * (1 - cover) + tile(values, signed, limits) * cover).astype(np.uint8)
    return blend


def _strength(
    values: Float[np.ndarray, "height width"], signed: bool, limits: ColourLimits
) -> Float[np.ndarray, "height width"]:
    low, high = (0.0, limits[1]) if signed else limits
    if high <= low:
        return np.zeros(values.shape)
    finite = np.nan_to_num(values.astype(np.float64), nan=low, posinf=high, neginf=-high if signed else low)
    return np.clip(((np.abs(finite) if signed else finite) - low) / (high - low), 0, 1)


def scale_bar(signed: bool, width: int = 256, height: int = 12) -> UInt8[np.ndarray, "height width 3"]:
    """The colour scale itself, for a legend."""
    ramp = np.linspace(-1 if signed else 0, 1, width)
    return np.repeat(tile(ramp[None], signed, (-1.0, 1.0) if signed else (0.0, 1.0)), height, axis=0)


def shrink(picture: UInt8[np.ndarray, "height width 3"], longest: int) -> UInt8[np.ndarray, "rows columns 3"]:
    """The picture with its longer side at most `longest`; never enlarged."""
    height, width = picture.shape[:2]
    share = longest / max(height, width)
    if share >= 1:
        return picture
    size = (max(1, round(width * share)), max(1, round(height * share)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def data_uri(picture: UInt8[np.ndarray, "height width 3"], *, longest: int = 224, quality: int = 80) -> str:
    """A picture as a JPEG data URI, to be embedded in an HTML page."""
    image = Image.fromarray(shrink(picture, longest))
    out = io.BytesIO()
    try:
        image.save(out, "JPEG", quality=quality, subsampling=0, optimize=True)
    except OSError:  # Pillow gives the optimiser a buffer that a picture of pure noise overflows
        out = io.BytesIO()
        image.save(out, "JPEG", quality=quality, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()


def png_uri(picture: UInt8[np.ndarray, "height width 3"], *, colours: int = 64) -> str:
    """A small picture as a PNG data URI with at most `colours` colours."""
    out = io.BytesIO()
    Image.fromarray(picture).quantize(colours, method=Image.Quantize.MEDIANCUT).save(out, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


# Contact sheets -----------------------------------------------------------------------------------------------------------

_CELL, _GAP, _MARGIN = 224, 8, 32


def contact_sheet(
    photo: UInt8[np.ndarray, "rows columns 3"],
    maps: Mapping[str, Float[np.ndarray, "height width"]],
    titles: Mapping[str, str],
    *,
    signed: Mapping[str, bool] | None = None,
    heading: str = "",
    columns: int = 3,
) -> Image.Image:
    """One picture: the photo, then for each method its map alone and its map over the photo, with names.

    `titles` may rename a method on the sheet. `signed` tells by method whether its map is signed; a method that is not in
    it has a signed map if the map holds a value below zero.
    """
    height, width = photo.shape[:2]
    share = _CELL / max(height, width)
    cell = (max(1, round(width * share)), max(1, round(height * share)))
    pair = 2 * cell[0] + _GAP
    name_font, small = ImageFont.load_default(17), ImageFont.load_default(13)
    step = cell[1] + 44
    columns = max(1, min(columns, len(maps)))
    rows = max(1, -(-len(maps) // columns))
    left = _MARGIN + cell[0] + 36
    note = wrap_text(LEGEND, small, max(320, left + columns * (pair + 28) - 28 - _MARGIN))
    title = wrap_text(heading or "photo", name_font, cell[0])[:4]
    grid = max(rows * step, cell[1] + 15 + 21 * len(title))
    size = (left + columns * (pair + 28) - 28 + _MARGIN, 78 + grid + 18 * len(note) + 26)
    page = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(page)
    eye_chart(draw, _MARGIN, 22)
    top = 66
    page.paste(_fitted(photo, cell), (_MARGIN, top))
    for place, line in enumerate(title):
        draw.text((_MARGIN, top + cell[1] + 8 + 21 * place), line, fill=INK, font=name_font)
    for place, (name, values) in enumerate(maps.items()):
        x, y = left + (place % columns) * (pair + 28), top + (place // columns) * step
        two_sided = (signed or {}).get(name, bool((values < 0).any()))
        ends = limits(values, two_sided)
        page.paste(_fitted(tile(values, two_sided, ends), cell), (x, y))
        draw.rectangle((x - 1, y - 1, x + cell[0], y + cell[1]), outline=LINE)
        page.paste(_fitted(overlay(fit_photo(photo, values), values, two_sided, ends), cell), (x + cell[0] + _GAP, y))
        draw.text((x, y + cell[1] + 8), clip_text(titles.get(name, name), name_font, pair), fill=INK, font=name_font)
    bottom = top + grid + 2
    draw.line((_MARGIN, bottom, size[0] - _MARGIN, bottom), fill=LINE)
    for place, line in enumerate(note):
        draw.text((_MARGIN, bottom + 10 + 18 * place), line, fill=SOFT, font=small)
    return page


def fit_photo(
    photo: UInt8[np.ndarray, "rows columns 3"], values: Float[np.ndarray, "height width"]
) -> UInt8[np.ndarray, "height width 3"]:
    """The photo at the size of the map."""
    if photo.shape[:2] == values.shape:
        return photo
    return np.asarray(Image.fromarray(photo).resize(values.shape[::-1], Image.Resampling.BILINEAR))


def _fitted(picture: UInt8[np.ndarray, "height width 3"], size: tuple[int, int]) -> Image.Image:
    smaller = size[0] < picture.shape[1]
    return Image.fromarray(picture).resize(size, Image.Resampling.BOX if smaller else Image.Resampling.NEAREST)


def eye_chart(draw: ImageDraw.ImageDraw, x: int, y: int) -> None:
    """Draws the line of letters at the top of every contact sheet."""
    draw.text((x, y - 6), "E", fill=INK, font=ImageFont.load_default(28), stroke_width=0.6)
    for place, letter in enumerate("FPTOZ"):
        draw.text((x + 40 + 24 * place, y + 9), letter, fill=SOFT, font=ImageFont.load_default(13))


Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def clip_text(text: str, font: Font, width: int) -> str:
    """As much of a text as fits into a width."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"


def wrap_text(text: str, font: Font, width: int) -> list[str]:
    """A text in lines that fit into a width."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(clip_text(word, font, width))
    return lines
