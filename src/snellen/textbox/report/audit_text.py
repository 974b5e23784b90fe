"""An audit in words and tables: for a terminal, and as Markdown for the documentation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.errors import SnellenError
from snellen.textbox.audit.agreement import DIFFERENCE
from snellen.textbox.audit.audit import LEVEL, WORDS, Audit, Verdict
from snellen.textbox.audit.audit_scores import SETTINGS
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.bucket_means import value as share
from snellen.textbox.scenes.settings import RULES

MARKS: Mapping[Verdict, str] = {
    "sees": "●",
    "faint": "◐",
    "shape": "◇",
    "blind": "○",
    "misleads": "■",
    "unclear": "◆",
    "too few": "·",
}
STYLES: Mapping[Verdict, str] = {
    "sees": "green", "faint": "green", "shape": "yellow", "blind": "dim", "misleads": "red", "unclear": "yellow",
    "too few": "dim",
}  # fmt: skip

LIMITS = (
    "An interval holds for networks, methods and controls like those on trial, if these can be taken for draws from many. "
    "They were chosen, not drawn, and all networks have the same architecture on pictures of the same kind.",
    "Few networks allow little. An interval over two is nearly always too wide to say anything; over five or seven, a "
    "metric must be right in nearly every one of them. A plain percentile bootstrap over so few is too narrow, since it "
    "never sees a network that was not drawn; the ends are therefore Student's, with about as many degrees of freedom as "
    "there are networks less one where networks make most of the spread.",
    "An interval without width, such as [1.00, 1.00], says that no pair on trial speaks against it, not that none could.",
    "A metric that asks another question than whether a map is right, such as whether it changes with the model, is not a "
    "bad metric for being blind here; it only does not tell right maps from wrong ones.",
    "Where a metric explains another classifier or another class than the one whose reasoning is known, the oracle has no "
    "answer and takes no part; its columns then say –.",
)
"""What the table does not show."""


class Shown:
    """What rich prints for an audit: `Console().print(Shown(audit))`."""

    def __init__(self, found: Audit) -> None:
        self._audit = found

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
                word: Verdict = cell["verdict"]
                cells += [
                    Text(f"{MARKS[word]} {word}", STYLES[word]),
                    Text(with_ends(cell, "auc")),
                ]
            table.add_row(Text(metric.label), *cells, Text(fooled(self._audit, metric.label)))
        yield table
        yield Text("")
        for line in summary(self._audit):
            yield Text(line)
        for mark, name, meaning in legend():
            yield Text(f"{mark} {name}: {meaning}", style="dim")


def markdown(found: Audit) -> str:
    """The audit as a page of the documentation."""
    return "\n".join([*_head(found), *_table(found), *_by_setting(found), *_field(found), *_notes(found), ""])


def write_markdown(found: Audit, path: Path) -> Path:
    """Writes it to a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown(found), encoding="utf-8")
    except OSError as problem:
        raise SnellenError(f"cannot write the audit to '{path}': {problem.strerror}; choose another place") from None
    return path


def summary(found: Audit) -> list[str]:
    """What was tried, and which metrics can be believed, in sentences."""
    tried = [one for one in found.order if one.role == "on trial"]
    lines = [
        f"{numbers.count(len(tried), 'metric')} without a look at the truth, on {len(found.trial.methods)} maps of each of "
        f"{numbers.count(len(found.trial), 'image')} from {numbers.count(len(found.settings), 'setting')}."
    ]
    for group in found.groups:
        words = [found.cell(one.label, group)["verdict"] for one in tried]
        counts = ", ".join(f"{word} {words.count(word)}" for word in WORDS if word in words)
        lines.append(f"{title(found, group)}: {counts}.")
        alone, helped = found.believed(group)
        lines.append(
            f"To be believed in {group} settings, for they see among methods alone too: {', '.join(alone) or 'none'}."
        )
        certain = [label for label in alone if max(found.cell(label, group)[p] for p in ("p", "own_p")) < LEVEL]
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


def title(found: Audit, group: str) -> str:
    """A group of settings, with how many images and networks it has."""
    images, networks = found.size(group)
    return f"{group.capitalize()} settings ({numbers.count(images, 'image')}, {numbers.count(networks, 'network')})"


def legend() -> list[tuple[str, str, str]]:
    """The marks, the words and their rule."""
    return [(MARKS[word], word, meaning) for word, meaning in WORDS.items()]


def changed(found: Audit) -> list[tuple[str, str]]:
    """The metrics with other settings than their defaults, each with the reason."""
    names = {metric.label: metric.label.partition("(")[0] for metric in found.trial.metrics}
    return [(label, SETTINGS[name][1]) for label, name in names.items() if label != name and name in SETTINGS]


def plain(value: float) -> str:
    """A share or an AUC with two digits.

    >>> plain(0.714), plain(1.0), plain(float("nan"))
    ('.71', '1.00', '–')
    """
    return "–" if math.isnan(value) else share(value)


def signed(value: float) -> str:
    """A τ with its sign.

    >>> signed(0.31), signed(-0.31), signed(0.0)
    ('+.31', '−.31', '.00')
    """
    if math.isnan(value):
        return "–"
    sign = "+" if value >= 0.005 else "−" if value <= -0.005 else ""
    return sign + plain(abs(value))


def with_ends(cell: Mapping[str, Any], measure: str) -> str:
    """A mean with its interval."""
    one = signed if measure == "tau" else plain
    if math.isnan(cell[measure]):
        return "–"
    return f"{one(cell[measure])} [{one(cell[f'{measure}_low'])}, {one(cell[f'{measure}_high'])}]"


def percent(value: float) -> str:
    """A share as per cent."""
    return "–" if math.isnan(value) else f"{value:.0%}".replace("%", " %")


def fooled(found: Audit, metric: str) -> str:
    """How often a control wins in each group, and which does most often."""
    cells = [found.cell(metric, group) for group in found.groups]
    names = ", ".join(dict.fromkeys(cell["fooled_by"] for cell in cells if cell["fooled_by"]))
    return " / ".join(percent(cell["fooled"]) for cell in cells) + (f" {names}" if names else "")


def words_of(cell: Mapping[str, Any], verdict: str = "verdict") -> str:
    """A verdict with its mark."""
    word: Verdict = cell[verdict]
    return f"{MARKS[word]} {word}"


def _head(found: Audit) -> Iterator[str]:
    yield "# Metrics on trial"
    yield ""
    chosen = "" if found.settings == list(RULES) else f" --settings {','.join(found.settings)}"
    yield f"Generated by `snellen textbox audit{chosen} --markdown docs/textbox-audit.md`; do not edit."
    yield "On TextBox it is known what a network looks at (Kim et al. 2022), so that a map can be right or wrong, and a"
    yield "metric can be asked whether it notices. The truth of a map is PAFL in the paper's reading: the share of its"
    yield "magnitude on what the rule looks at."
    yield ""
    yield from (f"- {one}" for one in summary(found))
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
    yield "compared, and images within buckets are all drawn again. [Why so](decisions/0025-what-an-interval-is-over.md)."
    yield ""
    yield "The verdict is about AUC. Each interval stands alone: of forty metrics that guess, expect one to be above .5."
    yield ""
    yield from (f"- {mark} **{word}**: {meaning}." for mark, word, meaning in legend())
    yield ""


def _table(found: Audit) -> Iterator[str]:
    for group in found.groups:
        yield f"## {title(found, group)}"
        yield ""
        yield (
            "| metric | attribute | verdict | AUC | clear | methods alone | over decoy | τ | images | undefined "
            "| oracle on top | over controls | fooled |"
        )
        yield "|---" * 13 + "|"
        for metric in found.order:
            cell = found.cell(metric.label, group)
            yield _line(
                f"`{metric.label}` {'↑' if metric.higher_is_better else '↓'}",
                metric.attribute or metric.role,
                words_of(cell),
                with_ends(cell, "auc"),
                with_ends(cell, "clear"),
                f"{MARKS[cell['own_verdict']]} {with_ends(cell, 'own')}",
                with_ends(cell, "decoy"),
                with_ends(cell, "tau"),
                str(cell["auc_n"]),
                percent(cell["undefined"] / cell["scores"]),
                percent(cell["oracle_top"]),
                percent(cell["oracle_above"]),
                percent(cell["fooled"]) + (f" {cell['fooled_by']}" if cell["fooled_by"] else ""),
            )
        yield ""


def _by_setting(found: Audit) -> Iterator[str]:
    yield "## AUC in every setting"
    yield ""
    yield "Each column is about one network: methods, controls and images are drawn again. Each interval stands alone: of a"
    yield "hundred, about five miss."
    yield ""
    yield "| metric | " + " | ".join(found.settings) + " |"
    yield "|---" * (1 + len(found.settings)) + "|"
    for metric in found.order:
        cells = [with_ends(found.cell(metric.label, name), "auc") for name in found.settings]
        yield _line(f"`{metric.label}`", *cells)
    yield ""


def _field(found: Audit) -> Iterator[str]:
    yield "## The maps"
    yield ""
    yield "| method | " + " | ".join(f"{group}: mean PAFL | succeeds" for group in found.groups) + " |"
    yield "|---" * (1 + 2 * len(found.groups)) + "|"
    for row in found.field().to_dict("records"):
        name = f"`{row['method']}`" + (f" ({row['kind']})" if row["kind"] == "control" else "")
        yield _line(name, *(text for g in found.groups for text in (plain(row[g]), percent(row[f"{g}_success"]))))
    yield ""


def _notes(found: Audit) -> Iterator[str]:
    yield "## Settings, and what is not here"
    yield ""
    yield from (f"- `{name}`: {reason}." for name, reason in changed(found))
    yield from (f"- `{name}` is left out: it {reason}." for name, reason in found.left_out.items())
    yield from (f"- {one}" for one in LIMITS)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
