"""The colours of all pages and charts, and how each part of a chart is painted; the style sheet is generated from them."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.charts.numbers import Number

PAGE_COLOURS = {
    "ink": "#1b1f24",
    "soft": "#5d6470",
    "line": "#e4e1d8",
    "paper": "#fdfcf9",
    "panel": "#f6f4ee",
    # The three categories of the saliency card, and what people could do.
    "methodology": "#35597c",
    "sensitivity": "#1f7a68",
    "perceptibility": "#8c5f0c",
    "people": "#7b3b6b",
    # Verdicts.
    "pass": "#1d7a3a",
    "fail": "#b3261e",
    "inconclusive": "#8a6400",
    "not-counted": "#6a707b",
}
"""By name, as hexadecimal RGB. All but paper, panel and line are for words: their contrast is at least 4.5 : 1."""

COLOURS = PAGE_COLOURS | {
    "axis": "#d9d5ca",
    "grey": "#858a93",
    "pale": "#c3c2bd",
    "silver": "#b9bdc4",
    "shade": "#ece8dc",
    "equal": "#e6efe8",
    "blue": "#35597c",
    "rust": "#a0480c",
    "violet": "#5b3a8c",
    "green": "#137a3c",
    "magenta": "#b0148c",
}
"""The colours of pages, and those of lines and areas in charts."""

PAPER, INK, SOFT, LINE = (COLOURS[name] for name in ("paper", "ink", "soft", "line"))

OWN = "own"
"""In a `Style`: the colour that the shape itself names."""

FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,sans-serif'


@dataclass(frozen=True, kw_only=True)
class Style:
    """How one kind of shape is painted; colours are names in `COLOURS`, or `OWN`."""

    stroke: str | None = None
    """None for no line."""
    fill: str | None = None
    """None for an empty shape."""
    width: Number = 1.0
    """Of the stroke, in pixels."""
    dash: str = ""
    """Lengths of strokes and gaps in pixels, such as "3 2"."""
    opacity: Number = 1.0
    """Of the fill, from 0 to 1."""
    size: Number = 11.0
    """Of text, in pixels."""
    bold: bool = False


STYLES = {
    # Lines.
    "base": Style(stroke="axis"),
    "tick": Style(stroke="grey", width=2),
    "lead": Style(stroke="pale"),
    "bar": Style(stroke=OWN, width=3.5),
    "thin": Style(stroke=OWN, width=1.5),
    "link": Style(stroke=OWN, width=1.3),
    "median": Style(stroke="grey", width=1.5),
    "threshold": Style(stroke="fail", width=1.2, dash="3 2"),
    "oracle": Style(stroke="green", width=1.6),
    # Curves.
    "curve": Style(stroke=OWN, width=2.2),
    "behind": Style(stroke="grey", width=1.2),
    "series": Style(stroke=OWN, width=1.75),
    # Markers.
    "full": Style(fill=OWN),
    "faint": Style(fill=OWN, opacity=0.62),
    "open": Style(fill="paper", stroke=OWN, width=1.7),
    "hollow": Style(stroke=OWN, width=2),
    "number": Style(fill="paper", stroke=OWN, width=1.1),
    # Areas.
    "background": Style(fill="paper"),
    "shaded": Style(fill="shade"),
    "band": Style(fill="equal"),
    "column": Style(fill="silver"),
    # Text.
    "caption": Style(fill="soft"),
    "text": Style(fill="ink"),
    "better": Style(fill="ink", bold=True),
    "title": Style(fill="ink", size=13),
    "digit": Style(fill=OWN, size=10, bold=True),
}
"""By the name that a shape gives as its `style`, which is also its class in SVG."""

_TEXT = ("caption", "text", "better", "title", "digit")


def page_css() -> str:
    """The colours as CSS variables and the styles of charts as rules, for the head of a page."""
    variables = "".join(f"--{name}:{value};" for name, value in PAGE_COLOURS.items())
    return f":root{{{variables}}}\n{chart_css()}"


def chart_css() -> str:
    """The styles of charts as CSS rules that need nothing else, for a picture that stands alone."""
    rules = [f"svg text{{font:11px {FONT};fill:{SOFT}}}", "svg polyline{vector-effect:non-scaling-stroke}"]
    rules += [f"svg .{name}{{color:{value}}}" for name, value in COLOURS.items()]
    rules += [f"svg .{name}{{{_declarations(style, text=name in _TEXT)}}}" for name, style in STYLES.items()]
    return "\n".join(rules) + "\n"


def _declarations(style: Style, *, text: bool) -> str:
    parts = [f"fill:{_paint(style.fill)}"]
    if style.stroke:
        parts += [f"stroke:{_paint(style.stroke)}", f"stroke-width:{style.width:g}"]
    if style.dash:
        parts.append(f"stroke-dasharray:{style.dash}")
    if style.opacity != 1:
        parts.append(f"fill-opacity:{style.opacity:g}")
    if text and style.size != 11:
        parts.append(f"font-size:{style.size:g}px")
    if style.bold:
        parts.append("font-weight:600")
    return ";".join(parts)


def _paint(name: str | None) -> str:
    return "none" if name is None else "currentColor" if name == OWN else COLOURS[name]
