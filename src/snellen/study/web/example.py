"""The drawing that shows what a map is: a sailing boat with a bright sail, drawn as all maps of a study are."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw

from snellen.charts import pictures
from snellen.study.making.rendering import LEAST, picture

SIDE = LEAST
_FINE = 4
"""The boat is drawn so many times larger and then shrunk, so that its edges are smooth."""


@cache
def examples() -> dict[str, bytes]:
    """By name of the file, the example with its map over it and beside it, and the colour scale, as PNG."""
    photo, values = _boat(), _map()
    shown = {f"example-{style}.png": _png(picture(photo, values, style)) for style in ("overlay", "side-by-side")}
    return shown | {"scale.png": _png(pictures.scale_bar(False))}


def _boat() -> UInt8[np.ndarray, "height width 3"]:
    size = SIDE * _FINE
    rows = np.linspace(0, 1, size)[:, None]
    sky = np.array([120, 168, 208]) * (1 - rows) + np.array([222, 232, 236]) * rows
    page = Image.fromarray(np.repeat(sky[:, None, :], size, axis=1).astype(np.uint8))
    pen = ImageDraw.Draw(page)

    def at(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return [(x * size, y * size) for x, y in points]

    pen.ellipse(at((0.74, 0.09), (0.87, 0.22)), fill="#f6e3a1")
    pen.polygon(at((0.0, 0.66), (0.2, 0.6), (0.42, 0.66)), fill="#7f9c8a")
    pen.rectangle(at((0.0, 0.66), (1.0, 1.0)), fill="#3f7396")
    for row, left in ((0.74, 0.08), (0.83, 0.62), (0.9, 0.2), (0.95, 0.7)):
        pen.line(at((left, row), (left + 0.2, row)), fill="#6f9dba", width=size // 90)
    pen.polygon(at((0.22, 0.68), (0.82, 0.68), (0.72, 0.8), (0.32, 0.8)), fill="#8a3b2a")
    pen.line(at((0.5, 0.16), (0.5, 0.7)), fill="#4a3a2c", width=size // 70)
    pen.polygon(at((0.52, 0.18), (0.52, 0.64), (0.8, 0.64)), fill="#fbf7ec")
    pen.polygon(at((0.48, 0.24), (0.48, 0.64), (0.28, 0.64)), fill="#efe6d2")
    return np.asarray(page.resize((SIDE, SIDE), Image.Resampling.BOX))


def _map() -> Float[np.ndarray, "height width"]:
    across, down = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))

    def hill(x: float, y: float, wide: float, high: float) -> Float[np.ndarray, "height width"]:
        result: np.ndarray = np.exp(-(((across - x) / wide) ** 2) - ((down - y) / high) ** 2)
        return result

    return hill(0.57, 0.46, 0.15, 0.2) + 0.35 * hill(0.5, 0.72, 0.24, 0.07)


def _png(drawn: UInt8[np.ndarray, "height width 3"]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(drawn).save(out, "PNG", optimize=True)
    return out.getvalue()
