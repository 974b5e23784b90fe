"""The results of a variation as files: tables (CSV), claims (CSV), a page of Markdown, and a figure (SVG)."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console, ConsoleOptions
from rich.text import Text

from snellen.charts.chart import Chart
from snellen.charts.line_figure import LinePanel, LineStyle, line_figure
from snellen.charts.numbers import count
from snellen.errors import SnellenError
from snellen.papers.claims import ClaimResult
from snellen.papers.comparison_table import VERDICT_MARKS
from snellen.textbox.exam import summaries
from snellen.textbox.exam.exam_scenes import PER_BUCKET
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.exam.variations import PLAIN, VariationResult
from snellen.textbox.report.bucket_means import is_control, paper_methods, two_digits
from snellen.textbox.report.variation_claims import KINDS, decide_variation_claims
from snellen.textbox.scenes.settings import RULES

TABLE, CLAIMS, PAGE, FIGURE = "table.csv", "claims.csv", "study.md", "figure.svg"


def write_variation(result: VariationResult, folder: str | Path) -> Path:
    """Writes all four files; returns the path of the page."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        table(result).to_csv(target / TABLE, index=False, float_format="%.4f")
        claims_table(decide_variation_claims(result)).to_csv(target / CLAIMS, index=False)
        (target / FIGURE).write_text(figure(result).standalone(), encoding="utf-8")
        (target / PAGE).write_text(markdown(result), encoding="utf-8")
    except OSError as problem:
        raise SnellenError(f"cannot write the variation to '{target}' ({problem.strerror}); choose another --out") from None
    return target / PAGE


def table(result: VariationResult) -> pd.DataFrame:
    """One row per kind of network, kind of setting and method: averages and worst buckets of all scores."""
    parts = []
    for name, frame in {PLAIN: result.plain, **result.frames}.items():
        merged: pd.DataFrame | None = None
        for score in dict.fromkeys((*result.variation.scores, "pafl", "safl")):
            columns = {"average": f"{score}_average", "minimum": f"{score}_worst"}
            rows = summaries.simple_and_complex(frame, score).rename(columns=columns)
            rows = rows[["simple", "method", *columns.values()]]
            merged = rows if merged is None else merged.merge(rows)
        assert merged is not None
        parts.append(merged.assign(circumstance=name, settings=", ".join(frame["setting"].unique())))
    whole = pd.concat(parts, ignore_index=True)
    kinds = whole.pop("simple").map(KINDS)
    first = {"circumstance": whole.pop("circumstance"), "settings": whole.pop("settings"), "kind": kinds}
    return pd.concat([pd.DataFrame(first), whole], axis=1)


def claims_table(claims: Sequence[ClaimResult]) -> pd.DataFrame:
    """One row per claim."""
    rows = [{**asdict(claim), "holds": claim.verdict} for claim in claims]
    return pd.DataFrame(rows, columns=["section", "sentence", "holds", "numbers", "reason", "among"])


# The page ------------------------------------------------------------------------------------------------------------------


def markdown(result: VariationResult) -> str:
    """The command, the claims, the figure, the networks and the scores."""
    lines = [
        f"## {result.variation.title}",
        "",
        f"    {command(result)}",
        "",
        *claims_lines(decide_variation_claims(result)),
        f"![averages and worst buckets]({FIGURE})",
        "",
        f"Solid: these networks; dotted: the plain ones on black. {count(result.per_bucket, 'scene')} of every bucket, the "
        "paper's methods (DeepSHAP with fewer backgrounds), read as the paper says.",
        "",
        *_networks(result),
    ]
    for kind in result.frames:
        for score in result.variation.scores:
            lines += _scores(result, kind, score)
    return "\n".join(lines).rstrip() + "\n"


def command(result: VariationResult) -> str:
    """The command that runs this variation again."""
    names = [kind.name for kind in result.variation.kinds]
    present = [name for name in names if name in result.frames]
    settings = [setting for setting in RULES if any(setting in result.settings_of(name) for name in present)]
    text = f"snellen textbox run --variation {result.variation.name}"
    text += f" --only {','.join(present)}" if len(present) < len(names) else ""
    text += f" --settings {','.join(settings)}" if len(settings) < len(RULES) else ""
    return text + (f" --images {result.per_bucket}" if result.per_bucket != PER_BUCKET else "")


def claims_lines(claims: Sequence[ClaimResult]) -> Iterator[str]:
    """Claims as a table of Markdown, line by line."""
    yield "| section | claim | here | numbers |"
    yield "| --- | --- | --- | --- |"
    for claim in claims:
        mark, _ = VERDICT_MARKS[claim.verdict]
        reason = f"<br>Possible reason: {claim.reason}." if claim.reason else ""
        sentence = claim.sentence[0].upper() + claim.sentence[1:]
        yield f"| {claim.section} | {sentence} | {mark} {claim.verdict} | {claim.numbers}{reason} |"
    yield ""


def _networks(result: VariationResult) -> Iterator[str]:
    yield "| network | right on unseen scenes, mean of buckets | worst bucket | images of training |"
    yield "| --- | --- | --- | --- |"
    for networks in result.networks.values():
        for network in networks:
            accuracy = network.accuracy.values()
            images = network.record["training"]["images"]
            yield f"| `{network.name}` | {sum(accuracy) / len(accuracy):.3f} | {min(accuracy):.3f} | {images:,} |"
    yield ""
    for name, problem in result.missing.items():
        yield f"- `{name}` takes no part: {problem}."
    for kind, reasons in result.left_out.items():
        for label, problem in reasons.items():
            yield f"- `{label}` is not among the methods on {kind}: {problem.rstrip('.')}."
    if result.missing or any(result.left_out.values()):
        yield ""


def _scores(result: VariationResult, kind: str, score: str) -> Iterator[str]:
    """The scores of the plain networks, then those of this kind."""
    before, after = (_wide_scores(frame, score) for frame in (result.plain_of(kind), result.frames[kind]))
    columns = [
        (setting_kind, statistic)
        for setting_kind in ("simple", "complex")
        for statistic in ("average", "worst")
        if (setting_kind, statistic) in after
    ]
    yield f"### {score.upper()}, plain → {kind} ({', '.join(result.settings_of(kind))})"
    yield ""
    yield f"| method | {' | '.join(f'{setting_kind}, {statistic}' for setting_kind, statistic in columns)} |"
    yield f"| --- |{' --- |' * len(columns)}"
    short_names = {label: name for name, label in paper_methods(after.index).items()}
    for label in sorted(after.index, key=lambda label: (label == ORACLE, is_control(label))):
        cells = []
        for column in columns:
            has_plain = label in before.index and column in before
            plain = two_digits(float(before[column][label])) if has_plain else "–"
            cells.append(f"{plain} → {two_digits(float(after[column][label]))}")
        title = f"{short_names[label]} `{label}`" if label in short_names else f"*{label}*"
        yield f"| {title} | {' | '.join(cells)} |"
    yield ""


def _wide_scores(frame: pd.DataFrame, score: str) -> pd.DataFrame:
    """Methods by (simple or complex, average or worst)."""
    scores = summaries.simple_and_complex(frame, score)
    scores["kind"] = scores["simple"].map(KINDS)
    order = list(scores["method"].unique())
    wide = scores.rename(columns={"minimum": "worst"}).pivot(index="method", columns="kind", values=["average", "worst"])
    return wide.swaplevel(axis=1).reindex(order)


# The terminal --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimList:
    """What rich prints for claims: `Console().print(ClaimList(claims))`."""

    claims: Sequence[ClaimResult]
    title: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """A mark, the claim, the verdict, the numbers, and the reason."""
        width = max(30, options.max_width)
        if self.title:
            yield Text(self.title, style="bold")
        for claim in self.claims:
            mark, style = VERDICT_MARKS[claim.verdict]
            among = " (all methods)" if claim.among == "all" else ""
            words = f"{claim.section}: {claim.sentence}{among}: {claim.verdict.upper()} ({claim.numbers})"
            line = Text("\n".join(textwrap.wrap(words, width, initial_indent=f"{mark} ", subsequent_indent="  ")))
            line.stylize(style, 0, 1)
            yield line
            if claim.reason:
                reason = textwrap.wrap(
                    f"possible reason: {claim.reason}", width, initial_indent="  ", subsequent_indent="  "
                )
                yield Text("\n".join(reason), style="dim")


# The figure ----------------------------------------------------------------------------------------------------------------

_STATISTICS = {"average": ("average", "blue"), "worst": ("worst bucket", "perceptibility")}
_STEP, _HEIGHT = 30, 150
"""Pixels between two methods, and height of a panel."""


def figure(result: VariationResult, score: str = "pafl") -> Chart:
    """Averages and worst buckets of the paper's methods: these networks solid, the plain ones dotted (as Fig. 10 to 12)."""
    frames = (result.plain, *result.frames.values())
    names = list(paper_methods({label for frame in frames for label in frame["method"]}))
    rows = []
    for kind in result.frames:
        plain, varied = (_wide_scores(frame, score) for frame in (result.plain_of(kind), result.frames[kind]))
        rows.append(
            [
                _panel(f"{kind}: {setting_kind} settings", setting_kind, plain, varied, names)
                for setting_kind in KINDS.values()
                if (setting_kind, "average") in varied
            ]
        )
    title = f"{score.upper()} of {len(names)} methods: {result.variation.title}"
    return line_figure(rows, title=title, width=_STEP * (len(names) - 1), height=_HEIGHT, turn=-45, below=74)


def _panel(title: str, kind: str, plain: pd.DataFrame, varied: pd.DataFrame, names: Sequence[str]) -> LinePanel:
    lines = {}
    for statistic, (words, colour) in _STATISTICS.items():
        styles = (
            (LineStyle(name=f"{words}, these networks", colour=colour, dots=True), varied),
            (LineStyle(name=f"{words}, plain, on black", colour=colour, dash="2 3"), plain),
        )
        for style, frame in styles:
            lines[style] = list(enumerate(_values(frame, (kind, statistic), names)))
    return LinePanel(
        title=title,
        lines=lines,
        across=dict(enumerate(names)),
        up={level: two_digits(level) for level in (0.0, BAR, 1.0)},
        ends=(0, len(names) - 1),
        dashed=BAR,
    )


def _values(frame: pd.DataFrame, column: tuple[str, str], names: Sequence[str]) -> list[float]:
    """The number of each method; NaN where it was not run."""
    labels = paper_methods(frame.index)
    return [float(frame[column][labels[name]]) if name in labels and column in frame else math.nan for name in names]
