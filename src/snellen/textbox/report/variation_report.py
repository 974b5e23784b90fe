"""A study as files: tables (CSV), claims (CSV), a page of Markdown, and a figure (SVG)."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from markupsafe import escape
from rich.console import Console, ConsoleOptions
from rich.text import Text

from snellen.charts import colours
from snellen.charts.numbers import count
from snellen.errors import SnellenError
from snellen.textbox.exam import summaries
from snellen.textbox.exam.exam_scenes import PER_BUCKET
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.exam.variations import PLAIN, VariationResult
from snellen.textbox.report.bucket_means import is_control, paper_methods, value
from snellen.textbox.report.questions import Claim
from snellen.textbox.scenes.settings import RULES

TABLE, CLAIMS, PAGE, FIGURE = "table.csv", "claims.csv", "study.md", "figure.svg"
MARKS = {"holds": ("●", "green"), "does not hold": ("■", "red"), "cannot be told": ("◆", "yellow")}


def write_variation(studied: VariationResult, folder: str | Path) -> Path:
    """Writes all four files; the page is what is returned."""
    where = Path(folder)
    try:
        where.mkdir(parents=True, exist_ok=True)
        table(studied).to_csv(where / TABLE, index=False, float_format="%.4f")
        claims_table(studied.claims()).to_csv(where / CLAIMS, index=False)
        (where / FIGURE).write_text(figure(studied), encoding="utf-8")
        (where / PAGE).write_text(markdown(studied), encoding="utf-8")
    except OSError as problem:
        raise SnellenError(f"cannot write the study to '{where}' ({problem.strerror}); choose another --out") from None
    return where / PAGE


def table(studied: VariationResult) -> pd.DataFrame:
    """One row per circumstance, kind of setting and method: averages and worst buckets of all scores of the study."""
    parts = []
    for name in (PLAIN, *studied.frames):
        frame = studied.plain if name == PLAIN else studied.frames[name]
        found: pd.DataFrame | None = None
        for score in dict.fromkeys((*studied.study.scores, "pafl", "safl")):
            columns = {"average": f"{score}_average", "minimum": f"{score}_worst"}
            one = summaries.simple_and_complex(frame, score).rename(columns=columns)
            one = one[["simple", "method", *columns.values()]]
            found = one if found is None else found.merge(one)
        assert found is not None
        parts.append(found.assign(circumstance=name, settings=", ".join(frame["setting"].unique())))
    whole = pd.concat(parts, ignore_index=True)
    kinds = whole.pop("simple").map({True: "simple", False: "complex"})
    facts = {"circumstance": whole.pop("circumstance"), "settings": whole.pop("settings"), "kind": kinds}
    return pd.concat([pd.DataFrame(facts), whole], axis=1)


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row per claim."""
    rows = [{**dataclasses.asdict(one), "holds": one.verdict} for one in claims]
    return pd.DataFrame(rows, columns=["section", "sentence", "holds", "numbers", "reason", "among"])


# The page ------------------------------------------------------------------------------------------------------------------


def markdown(studied: VariationResult) -> str:
    """What was asked, of which networks, what was found, and the numbers."""
    lines = [
        f"## {studied.study.title}",
        "",
        f"    {command(studied)}",
        "",
        *claims_lines(studied.claims()),
        f"![averages and worst buckets]({FIGURE})",
        "",
    ]
    lines += [
        f"Solid: these networks; dotted: the plain ones on black. {count(studied.per_bucket, 'scene')} of every bucket, the "
        "paper's methods (DeepSHAP with fewer backgrounds), read as the paper says.",
        "",
        *_networks(studied),
    ]
    for name in studied.frames:
        for score in studied.study.scores:
            lines += _scores(studied, name, score)
    return "\n".join(lines).rstrip() + "\n"


def command(studied: VariationResult) -> str:
    """What runs this study again."""
    names = [one.name for one in studied.study.circumstances]
    some = [name for name in names if name in studied.frames]
    settings = [one for one in RULES if any(one in studied.settings_of(name) for name in some)]
    text = f"snellen textbox run --study {studied.study.name}"
    text += f" --only {','.join(some)}" if len(some) < len(names) else ""
    text += f" --settings {','.join(settings)}" if len(settings) < len(RULES) else ""
    return text + (f" --images {studied.per_bucket}" if studied.per_bucket != PER_BUCKET else "")


def claims_lines(claims: Sequence[Claim]) -> Iterator[str]:
    """Claims as a table of Markdown, line by line."""
    yield "| section | claim | here | numbers |"
    yield "| --- | --- | --- | --- |"
    for one in claims:
        why = f"<br>Looked for a reason: {one.reason}." if one.reason else ""
        yield f"| {one.section} | {_upper(one.sentence)} | {MARKS[one.verdict][0]} {one.verdict} | {one.numbers}{why} |"
    yield ""


def _networks(studied: VariationResult) -> Iterator[str]:
    yield "| network | right on unseen scenes, mean of buckets | worst bucket | images learnt from |"
    yield "| --- | --- | --- | --- |"
    for found in studied.networks.values():
        for one in found:
            right = one.accuracy.values()
            images = one.record["training"]["images"]
            yield f"| `{one.name}` | {sum(right) / len(right):.3f} | {min(right):.3f} | {images:,} |"
    yield ""
    for name, problem in studied.missing.items():
        yield f"- `{name}` takes no part: {problem}."
    for name, left in studied.left_out.items():
        for label, problem in left.items():
            yield f"- `{label}` is not among the methods on {name}: {problem.rstrip('.')}."
    if studied.missing or any(studied.left_out.values()):
        yield ""


def _scores(studied: VariationResult, name: str, score: str) -> Iterator[str]:
    """Plain numbers, then those of the circumstance."""
    before, after = (_numbers(one, score) for one in (studied.plain_of(name), studied.frames[name]))
    shown = [(kind, place) for kind in ("simple", "complex") for place in ("average", "worst") if (kind, place) in after]
    yield f"### {score.upper()}, plain → {name} ({', '.join(studied.settings_of(name))})"
    yield ""
    yield f"| method | {' | '.join(f'{kind}, {place}' for kind, place in shown)} |"
    yield f"| --- |{' --- |' * len(shown)}"
    short = {label: key for key, label in paper_methods(after.index).items()}
    order = sorted(after.index, key=lambda label: (label == ORACLE, is_control(label)))
    for label in order:
        cells = []
        for at in shown:
            old = value(float(before[at][label])) if label in before.index and at in before else "–"
            cells.append(f"{old} → {value(float(after[at][label]))}")
        title = f"{short[label]} `{label}`" if label in short else f"*{label}*"
        yield f"| {title} | {' | '.join(cells)} |"
    yield ""


def _numbers(frame: pd.DataFrame, score: str) -> pd.DataFrame:
    """Methods by (simple or complex, average or worst)."""
    found = summaries.simple_and_complex(frame, score)
    found["kind"] = found["simple"].map({True: "simple", False: "complex"})
    order = list(found["method"].unique())
    wide = found.rename(columns={"minimum": "worst"}).pivot(index="method", columns="kind", values=["average", "worst"])
    return wide.swaplevel(axis=1).reindex(order)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


# The terminal --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """What rich prints for claims: `Console().print(Verdicts(claims))`."""

    claims: Sequence[Claim]
    title: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """A mark, the claim, the verdict, the numbers, and the reason."""
        if self.title:
            yield Text(self.title, style="bold")
        for one in self.claims:
            mark, style = MARKS[one.verdict]
            among = " (all methods)" if one.among == "all" else ""
            words = f"{one.section}: {one.sentence}{among}: {one.verdict.upper()} ({one.numbers})"
            line = Text("\n".join(textwrap.wrap(words, max(30, options.max_width), initial_indent=f"{mark} ",
                                                subsequent_indent="  ")))  # fmt: skip
            line.stylize(style, 0, 1)
            yield line
            if one.reason:
                yield Text("\n".join(textwrap.wrap(f"looked for a reason: {one.reason}", max(30, options.max_width),
                                                   initial_indent="  ", subsequent_indent="  ")), style="dim")  # fmt: skip


# The figure ----------------------------------------------------------------------------------------------------------------

_LINE = "#dcd8cd"
_COLOURS = {"average": "#35597c", "worst": "#8c5f0c"}
_STEP, _HEIGHT, _LEFT, _TOP = 30, 150, 46, 64


def figure(studied: VariationResult, score: str = "pafl") -> str:
    """Averages and worst buckets of the paper's methods: these networks solid, the plain ones dotted (as Fig. 10 to 12)."""
    panels = []
    kinds = [one for one in ("simple", "complex") if one in set(table(studied)["kind"])]
    names = list(paper_methods({label for frame in (studied.plain, *studied.frames.values()) for label in frame["method"]}))
    width, height = _STEP * len(names), _HEIGHT + 92
    for row, name in enumerate(studied.frames):
        old, new = (_numbers(one, score) for one in (studied.plain_of(name), studied.frames[name]))
        for column, kind in enumerate(kinds):
            if (kind, "average") in new:
                at = (_LEFT + column * (width + 40), _TOP + row * height)
                panels.append(_panel(f"{name}: {kind} settings", kind, old, new, names, at, labelled=column == 0))
    size = (_LEFT + len(kinds) * (width + 40), _TOP + len(studied.frames) * height)
    words = f"{score.upper()} of {len(names)} methods: {studied.study.title}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" height="{size[1]}" '
        f'role="img" aria-label="{escape(words)}" font-family="system-ui, sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="{colours.PAPER}"/>'
        f'<text x="{_LEFT}" y="20" fill="{colours.INK}" font-size="13">{escape(words)}</text>'
        f"{_legend(_LEFT, 38)}{''.join(panels)}</svg>\n"
    )


def _legend(x: int, y: int) -> str:
    parts = []
    for place, colour in _COLOURS.items():
        for dash, words in (("none", "these networks"), ("2 3", "plain, on black")):
            text = f"{'average' if place == 'average' else 'worst bucket'}, {words}"
            parts.append(
                f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2" '
                f'stroke-dasharray="{dash}"/><text x="{x + 30}" y="{y}" fill="{colours.SOFT}">{text}</text>'
            )
            x += 52 + 6 * len(text)
    return "".join(parts)


def _panel(
    title: str, kind: str, old: pd.DataFrame, new: pd.DataFrame, names: Sequence[str], at: tuple[int, int], *, labelled: bool
) -> str:
    x, y = at
    right, bottom = x + _STEP * (len(names) - 1), y + 18 + _HEIGHT
    parts = [f'<text x="{x}" y="{y + 8}" fill="{colours.INK}">{escape(title)}</text>']
    for level in (0.0, BAR, 1.0):
        high = bottom - _HEIGHT * level
        dash = "4 3" if level == BAR else "none"
        parts.append(f'<line x1="{x}" x2="{right}" y1="{high}" y2="{high}" stroke="{_LINE}" stroke-dasharray="{dash}"/>')
        if labelled:
            parts.append(f'<text x="{x - 8}" y="{high + 4}" text-anchor="end" fill="{colours.SOFT}">{value(level)}</text>')
    for where, name in enumerate(names):
        left = x + _STEP * where
        parts.append(
            f'<text transform="translate({left + 3},{bottom + 12}) rotate(-45)" text-anchor="end" fill="{colours.SOFT}">'
            f"{name}</text>"
        )
    for place, colour in _COLOURS.items():
        for frame, dash in ((old, "2 3"), (new, "none")):
            parts.append(_lines(frame, (kind, place), names, colour, dash, (x, bottom)))
    return "".join(parts)


def _lines(
    frame: pd.DataFrame, column: tuple[str, str], names: Sequence[str], colour: str, dash: str, at: tuple[int, int]
) -> str:
    """A line through the methods, broken where one was not run; a dot for each on solid ones."""
    labels = paper_methods(frame.index)
    points = []
    for where, name in enumerate(names):
        number = float(frame[column][labels[name]]) if name in labels and column in frame else math.nan
        points.append(None if math.isnan(number) else (at[0] + _STEP * where, at[1] - _HEIGHT * number))
    parts, run = [], list[str]()
    for point in (*points, None):
        if point is not None:
            run.append(f"{point[0]},{point[1]:.1f}")
            if dash == "none":
                parts.append(f'<circle cx="{point[0]}" cy="{point[1]:.1f}" r="2.5" fill="{colour}"/>')
            continue
        if len(run) > 1:
            drawn = " ".join(run)
            parts.append(
                f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>'
            )
        run = []
    return "".join(parts)
