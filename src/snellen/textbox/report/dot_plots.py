"""Figures of many methods: one line per method, every panel on the same scale from 0 to 1, with a table behind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from snellen.charts.scale import Scale

Shape = Literal["dot", "ring", "square", "box", "triangle", "diamond", "cross", "1", "2", "3"]

SCALE = Scale(0.0, 1.0)
HEIGHT, MIDDLE = 20, 10

_SHAPES: dict[str, str] = {
    "dot": '<circle class="full" r="4.2"/>',
    "ring": '<circle class="open" r="3.6"/>',
    "square": '<rect class="full" x="-3.8" y="-3.8" width="7.6" height="7.6"/>',
    "box": '<rect class="open" x="-3.4" y="-3.4" width="6.8" height="6.8"/>',
    "triangle": '<path class="full" d="M0 -5 4.8 3.8H-4.8Z"/>',
    "diamond": '<path class="open" d="M0 -5.4 5 0 0 5.4 -5 0Z"/>',
    "cross": '<path class="open" d="M-3.6 -3.6 3.6 3.6M-3.6 3.6 3.6 -3.6"/>',
}


@dataclass(frozen=True)
class Mark:
    """A value with its shape, and what it is, in words. `tone` is a class of the style sheet."""

    value: float
    shape: Shape
    words: str
    tone: str = "ink"


@dataclass(frozen=True)
class DotRow:
    """What one panel says of one method: marks, perhaps a bar from zero, and a line between two values.

    `said` are further numbers for those who listen to the figure.
    """

    marks: tuple[Mark, ...]
    bar: float | None = None
    link: tuple[float, float] | None = None
    said: tuple[tuple[str, float], ...] = ()

    @property
    def words(self) -> str:
        """All of it for those who listen."""
        bar = [] if self.bar is None else [("average", self.bar)]
        told = [*bar, *self.said, *((mark.words, mark.value) for mark in self.marks)]
        return ", ".join(f"{name} {score(value) if math.isfinite(value) else 'undefined'}" for name, value in told)


@dataclass(frozen=True)
class Panel:
    """One column of a figure. `ignorance` is the best that a control reaches, `oracle` what a perfect map scores."""

    title: str
    threshold: float | None = None
    ignorance: float | None = None
    oracle: float | None = None


@dataclass(frozen=True)
class Row:
    """One method: its name, and a lane for every panel."""

    method: str
    lanes: tuple[DotRow, ...]


@dataclass(frozen=True)
class Table:
    """The numbers behind a figure; the first column holds the names of rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """Rows in groups, under panels, with a key to the marks and the numbers as a table; `after` is the published one."""

    name: str
    title: str
    after: str
    note: str
    panels: tuple[Panel, ...]
    groups: tuple[tuple[str, tuple[Row, ...]], ...]
    keys: tuple[tuple[Shape, str, str], ...]
    table: Table

    def heads(self) -> list[Markup]:
        """The axis of every panel, with the lines that its lanes hold."""
        return [axis(panel) for panel in self.panels]

    def drawn(self, row: Row, name: str) -> list[Markup]:
        """The lanes of one row, each with its words."""
        return [draw(lane, panel, name) for lane, panel in zip(row.lanes, self.panels, strict=True)]

    def key(self) -> list[tuple[Markup, str]]:
        """Every kind of mark with what it stands for."""
        return [(_icon(shape, tone), words) for shape, tone, words in self.keys]


def score(value: float) -> str:
    """A score with two digits; a dash where it is undefined.

    >>> score(0.5), score(0.047), score(float("nan"))
    ('0.50', '0.05', '—')
    """
    return "—" if math.isnan(value) else f"{value:.2f}"


def draw(lane: DotRow, panel: Panel, name: str) -> Markup:
    """One lane; what it shows is also said in words."""
    parts = [*_lines(panel)]
    finite = [mark for mark in lane.marks if math.isfinite(mark.value)]
    if lane.bar is not None and math.isfinite(lane.bar):
        parts.append(Markup('<rect class="bar" x="{:.2f}%" y="4" width="{:.2f}%" height="12"/>').format(
            _at(0.0), _at(lane.bar) - _at(0.0)))  # fmt: skip
    if lane.link is not None and all(map(math.isfinite, lane.link)):
        low, high = sorted(lane.link)
        parts.append(Markup('<line class="link" x1="{:.2f}%" x2="{:.2f}%" y1="{y}" y2="{y}"/>').format(
            _at(low), _at(high), y=MIDDLE))  # fmt: skip
    parts += [
        Markup('<svg x="{:.2f}%" y="{}" class="mark {}">{}</svg>').format(
            _at(mark.value), MIDDLE, mark.tone, _body(mark.shape)
        )
        for mark in finite
    ]
    if not finite and (lane.bar is None or math.isnan(lane.bar)):
        parts.append(Markup('<text x="{:.2f}%" y="14" dx="6">undefined</text>').format(_at(0.0)))
    words = f"{name}, {panel.title}: {lane.words or 'undefined'}"
    return Markup('<svg class="lane" height="{}" role="img" aria-label="{}">{}</svg>').format(
        HEIGHT, words, Markup("").join(parts)
    )


def axis(panel: Panel) -> Markup:
    """The scale of a panel with its threshold, and the marks of the best control and of the perfect map."""
    parts = [
        Markup('<text x="{:.2f}%" y="11" text-anchor="{}">{}</text>').format(_at(value), anchor, text)
        for value, anchor, text in ((0.0, "middle", "0"), (0.5, "middle", "0.5"), (1.0, "middle", "1"))
    ]
    said = [f"{panel.title}, from 0 to 1"]
    said += [f"passes above {panel.threshold}"] if panel.threshold is not None else []
    said += [f"best control {score(panel.ignorance)}"] if panel.ignorance is not None else []
    said += [f"perfect map {score(panel.oracle)}"] if panel.oracle is not None else []
    return Markup('<svg class="lane axis" height="15" role="img" aria-label="{}">{}</svg>').format(
        "; ".join(said), Markup("").join(parts)
    )


def _lines(panel: Panel) -> list[Markup]:
    """What stands behind every lane of a panel."""
    parts = []
    if panel.ignorance is not None and math.isfinite(panel.ignorance):
        parts.append(Markup('<rect class="ignorance" x="{:.2f}%" y="0" width="{:.2f}%" height="100%"/>').format(
            _at(0.0), _at(panel.ignorance) - _at(0.0)))  # fmt: skip
    parts.append(_upright(0.0, "base"))
    parts.append(_upright(1.0, "base"))
    if panel.threshold is not None:
        parts.append(_upright(panel.threshold, "threshold"))
    if panel.oracle is not None and math.isfinite(panel.oracle):
        parts.append(_upright(panel.oracle, "oracle"))
    return parts


def _upright(value: float, kind: str) -> Markup:
    return Markup('<line class="{k}" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="100%"/>').format(k=kind, x=_at(value))


def _at(value: float) -> float:
    return SCALE.at(min(1.0, max(0.0, value)))


def _body(shape: Shape) -> Markup:
    if shape.isdigit():
        return Markup('<circle class="number" r="7"/><text y="3.6" text-anchor="middle">{}</text>').format(shape)
    return Markup(_SHAPES[shape])


def _icon(shape: Shape, tone: str) -> Markup:
    return Markup(
        '<svg class="icon" width="16" height="16" aria-hidden="true"><svg x="8" y="8" class="mark {}">{}</svg></svg>'
    ).format(tone, _body(shape))


def grouped(
    rows: Mapping[str, Row], families: Mapping[str, str], order: Iterable[str]
) -> tuple[tuple[str, tuple[Row, ...]], ...]:
    """Rows by family, families in the given order, rows within one as they come."""
    found: dict[str, list[Row]] = {name: [] for name in order}
    for label, row in rows.items():
        found.setdefault(families[label], []).append(row)
    return tuple((name, tuple(some)) for name, some in found.items() if some)


def table(columns: Sequence[str], rows: Iterable[tuple[str, Sequence[float]]]) -> Table:
    """Numbers as text, undefined ones as a dash."""
    return Table(tuple(columns), tuple((name, *map(score, values)) for name, values in rows))
