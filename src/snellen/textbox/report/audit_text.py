"""An audit as text: tables and sentences for a terminal, and Markdown for the documentation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.errors import SnellenError
from snellen.textbox.audit.agreement import DIFFERENCE
from snellen.textbox.audit.audit import LEVEL, WORDS, Audit, AuditEstimate, MetricVerdict
from snellen.textbox.audit.audit_scores import SETTINGS
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.bucket_means import two_digits
from snellen.textbox.scenes.settings import RULES

MARKS: Mapping[MetricVerdict, str] = {
    "sees": "●",
    "faint": "◐",
    "shape": "◇",
    "blind": "○",
    "misleads": "■",
    "unclear": "◆",
    "too few": "·",
}
STYLES: Mapping[MetricVerdict, str] = {
    "sees": "green", "faint": "green", "shape": "yellow", "blind": "dim", "misleads": "red", "unclear": "yellow",
    "too few": "dim",
}  # fmt: skip

LIMITS = (
    "An interval holds for networks, methods and controls like those of the audit, if these can be taken for draws from "
    "many. They were chosen, not drawn, and all networks have the same architecture on pictures of the same kind.",
    "Few networks allow little. An interval over two is nearly always too wide to say anything; over five or seven, a "
    "metric must be right in nearly every one of them. A plain percentile bootstrap over so few is too narrow, since it "
    "never sees a network that was not drawn; the ends are therefore Student's, with about as many degrees of freedom as "
    "there are networks less one where networks make most of the spread.",
    "An interval without width, such as [1.00, 1.00], says that no pair here speaks against it, not that none could.",
    "A metric that measures something else than whether a map is right, such as whether it changes with the model, is not a "
    "bad metric for being blind here; it only does not distinguish right maps from wrong ones.",
    "Where a metric explains another classifier or another class than the one whose rule is known, the oracle has no map "
    "and takes no part; its columns then say –.",
)
"""What the table does not show."""


class AuditTable:
    """What rich prints for an audit: `Console().print(AuditTable(audit))`."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
        table.add_column("metric", min_width=26, overflow="fold")
        for group in self._audit.groups:
            table.add_column(f"{group}\nverdict", no_wrap=True)
            table.add_column("AUC\n95 % interval", no_wrap=True)
        table.add_column(f"fooled by a control\n{' / '.join(self._audit.groups)}", overflow="fold")
        role = ""
        for metric in self._audit.order:
            if metric.role not in (role, "on trial"):
                table.add_row(Text(metric.role, style="dim italic"))
            role = metric.role
            cells: list[Text] = []
            for group in self._audit.groups:
                cell = self._audit.cell(metric.label, group)
                cells += [Text(verdict_text(cell.verdict), STYLES[cell.verdict]), Text(with_ends(cell.estimates, "auc"))]
            table.add_row(Text(metric.label), *cells, Text(fooled(self._audit, metric.label)))
        yield table
        yield Text("")
        for line in summary(self._audit):
            yield Text(line)
        for mark, name, meaning in legend():
            yield Text(f"{mark} {name}: {meaning}", style="dim")


def markdown(audit: Audit) -> str:
    """The audit as a page of the documentation."""
    return "\n".join([*_head(audit), *_table(audit), *_by_setting(audit), *_methods(audit), *_notes(audit), ""])


def write_markdown(audit: Audit, path: Path) -> Path:
    """Writes the audit as Markdown to a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown(audit), encoding="utf-8")
    except OSError as problem:
        raise SnellenError(f"cannot write the audit to '{path}': {problem.strerror}; choose another place") from None
    return path


def summary(audit: Audit) -> list[str]:
    """How many metrics were audited, and which can be believed, in sentences."""
    audited = audit.audited
    lines = [
        f"{numbers.count(len(audited), 'metric')} without a look at the truth, on {len(audit.scores.methods)} maps of each "
        f"of {numbers.count(len(audit.scores), 'image')} from {numbers.count(len(audit.settings), 'setting')}."
    ]
    for group in audit.groups:
        words = [audit.cell(metric.label, group).verdict for metric in audited]
        counts = ", ".join(f"{word} {words.count(word)}" for word in WORDS if word in words)
        lines.append(f"{title(audit, group)}: {counts}.")
        alone, helped = audit.believed(group)
        lines.append(
            f"To be believed in {group} settings, for they see among methods alone too: {', '.join(alone) or 'none'}."
        )
        cells = {label: audit.cell(label, group) for label in alone}
        certain = [label for label, cell in cells.items() if max(cell.p, cell.own_p) < LEVEL]
        if alone:
            lines.append(
                f"Of these, also after Holm's correction over all metrics and groups: {', '.join(certain) or 'none'}."
            )
        if helped:
            lines.append(
                f"See the truth in {group} settings with controls and oracle among the maps, but not shown to without: "
                f"{', '.join(helped)}."
            )
    return lines


def title(audit: Audit, group: str) -> str:
    """A group of settings, with how many images and networks it has."""
    images, networks = audit.size(group)
    return f"{group.capitalize()} settings ({numbers.count(images, 'image')}, {numbers.count(networks, 'network')})"


def legend() -> list[tuple[str, str, str]]:
    """Mark, name and rule of every verdict."""
    return [(MARKS[word], word, meaning) for word, meaning in WORDS.items()]


def changed(audit: Audit) -> list[tuple[str, str]]:
    """The metrics with other settings than their defaults, each with the reason."""
    names = {metric.label: metric.label.partition("(")[0] for metric in audit.scores.metrics}
    return [(label, SETTINGS[name][1]) for label, name in names.items() if label != name and name in SETTINGS]


def plain(value: float) -> str:
    """A share or an AUC with two digits.

    >>> plain(0.714), plain(1.0), plain(float("nan"))
    ('.71', '1.00', '–')
    """
    return "–" if math.isnan(value) else two_digits(value)


def signed(value: float) -> str:
    """A τ with its sign.

    >>> signed(0.31), signed(-0.31), signed(0.0)
    ('+.31', '−.31', '.00')
    """
    if math.isnan(value):
        return "–"
    sign = "+" if value >= 0.005 else "−" if value <= -0.005 else ""
    return sign + plain(abs(value))


def with_ends(estimates: Mapping[str, AuditEstimate], measure: str) -> str:
    """A mean with its interval."""
    if math.isnan(estimates[measure].mean):
        return "–"
    mean, low, high = _texts(estimates, measure)
    return f"{mean} [{low}, {high}]"


def mean_and_ends(estimates: Mapping[str, AuditEstimate], measure: str) -> tuple[str, str]:
    """A mean, and its interval in brackets; the interval is empty where there is none."""
    mean, low, high = _texts(estimates, measure)
    return mean, "" if math.isnan(estimates[measure].low) else f"[{low}, {high}]"


def _texts(estimates: Mapping[str, AuditEstimate], measure: str) -> list[str]:
    text = signed if measure == "tau" else plain
    return [text(value) for value in estimates[measure][:3]]


def percent(value: float) -> str:
    """A share as per cent."""
    return "–" if math.isnan(value) else f"{value:.0%}".replace("%", " %")


def fooled(audit: Audit, metric: str) -> str:
    """How often a control wins in each group, and which does most often."""
    cells = [audit.cell(metric, group) for group in audit.groups]
    names = ", ".join(dict.fromkeys(cell.fooled_by for cell in cells if cell.fooled_by))
    return " / ".join(percent(cell.fooled) for cell in cells) + (f" {names}" if names else "")


def verdict_text(word: MetricVerdict) -> str:
    """A verdict with its mark."""
    return f"{MARKS[word]} {word}"


def _head(audit: Audit) -> Iterator[str]:
    yield "# Audit of metrics"
    yield ""
    chosen = "" if audit.settings == list(RULES) else f" --settings {','.join(audit.settings)}"
    yield f"Generated by `snellen textbox audit{chosen} --markdown docs/textbox-audit.md`; do not edit."
    yield "On TextBox it is known what a network looks at (Kim et al. 2022), so that a map can be right or wrong. The audit"
    yield "measures whether metrics prefer right maps. The truth of a map is PAFL in the paper's reading: the share of its"
    yield "magnitude on what the rule looks at."
    yield ""
    yield from (f"- {sentence}" for sentence in summary(audit))
    yield ""
    yield f"- **AUC**: of two maps of the same image, one that succeeds (PAFL above {BAR}) and one that does not, how"
    yield "  often the metric prefers the first; a tie is half, guessing is .50. The mean over images that have such a pair."
    yield f"- **clear**: the same over all pairs of maps whose PAFL differs by more than {DIFFERENCE}."
    yield "- **methods alone**: as AUC, without controls and oracle."
    yield "- **over decoy**: how often the oracle, the perfect map, is preferred to its decoy, the same map moved by half"
    yield "  the picture; a tie is half. A metric that cannot tell them apart goes by the shape of a map, not by its place."
    yield "- **τ**: Kendall's τ-b between metric and PAFL over the maps of an image, as a mean over images."
    yield "- **oracle on top**: on how many images no map is ranked above the perfect one."
    yield "- **over controls**: on how many images the oracle is ranked above all controls."
    yield "- **fooled**: on how many images a control that fails is first or shares that place, and which is most often."
    yield ""
    yield "In brackets 95 % intervals over everything that was sampled: networks, the methods and controls whose maps are"
    yield "compared, and images within buckets are all resampled. [Why so](decisions/0025-what-an-interval-is-over.md)."
    yield ""
    yield "The verdict is about AUC. Each interval stands alone: of forty metrics that guess, expect one to be above .5."
    yield ""
    yield from (f"- {mark} **{word}**: {meaning}." for mark, word, meaning in legend())
    yield ""


def _table(audit: Audit) -> Iterator[str]:
    for group in audit.groups:
        yield f"## {title(audit, group)}"
        yield ""
        yield (
            "| metric | attribute | verdict | AUC | clear | methods alone | over decoy | τ | images | undefined "
            "| oracle on top | over controls | fooled |"
        )
        yield "|---" * 13 + "|"
        for metric in audit.order:
            cell = audit.cell(metric.label, group)
            yield _line(
                f"`{metric.label}` {'↑' if metric.higher_is_better else '↓'}",
                metric.attribute or metric.role,
                verdict_text(cell.verdict),
                with_ends(cell.estimates, "auc"),
                with_ends(cell.estimates, "clear"),
                f"{MARKS[cell.own_verdict]} {with_ends(cell.estimates, 'own')}",
                with_ends(cell.estimates, "decoy"),
                with_ends(cell.estimates, "tau"),
                str(cell.estimates["auc"].n),
                percent(cell.undefined / cell.scores),
                percent(cell.oracle_top),
                percent(cell.oracle_above),
                percent(cell.fooled) + (f" {cell.fooled_by}" if cell.fooled_by else ""),
            )
        yield ""


def _by_setting(audit: Audit) -> Iterator[str]:
    yield "## AUC in every setting"
    yield ""
    yield "Each column is about one network: methods, controls and images are resampled. Each interval stands alone: of a"
    yield "hundred, about five miss."
    yield ""
    yield "| metric | " + " | ".join(audit.settings) + " |"
    yield "|---" * (1 + len(audit.settings)) + "|"
    for metric in audit.order:
        cells = [with_ends(audit.setting_estimates(metric.label, name), "auc") for name in audit.settings]
        yield _line(f"`{metric.label}`", *cells)
    yield ""


def _methods(audit: Audit) -> Iterator[str]:
    yield "## The maps"
    yield ""
    yield "| method | " + " | ".join(f"{group}: mean PAFL | succeeds" for group in audit.groups) + " |"
    yield "|---" * (1 + 2 * len(audit.groups)) + "|"
    for row in audit.method_table().to_dict("records"):
        name = f"`{row['method']}`" + (f" ({row['kind']})" if row["kind"] == "control" else "")
        yield _line(
            name, *(text for group in audit.groups for text in (plain(row[group]), percent(row[f"{group}_success"])))
        )
    yield ""


def _notes(audit: Audit) -> Iterator[str]:
    yield "## Settings, and what is not here"
    yield ""
    yield from (f"- `{name}`: {reason}." for name, reason in changed(audit))
    yield from (f"- `{name}` is left out: it {reason}." for name, reason in audit.left_out.items())
    yield from (f"- {sentence}" for sentence in LIMITS)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
