"""Positive controls on pages: what they are, in words, and what it means where they do not beat a control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from snellen.charts import numbers
from snellen.report.readable import Readable
from snellen.verdicts import PairedDifference
from snellen.verdicts.positive_control import PositiveControl

MEANING = (
    "Positive controls are the masks themselves as maps: they show what a map scores that is right by the mask. The mask "
    "says where a person sees the object, which need not be what the model uses. They are not judged, and nothing is judged "
    "against them."
)
"""What every page says where it shows them."""

SURPRISE = (
    "Either the metric does not reward the regions that the masks mark, or the model does not use them on these images; the "
    "scores do not say which."
)
"""What it means where a positive control scores worse than a control, or like it."""


def by_metric(run: Readable) -> Mapping[str, list[PositiveControl]]:
    """The positive controls of a run by metric, in the order of the run."""
    metrics: dict[str, list[PositiveControl]] = {metric.label: [] for metric in run.record.spec.metrics}
    for control in run.verdicts().positive_controls:
        metrics[control.row.metric].append(control)
    return metrics


def note_of(controls: Sequence[PositiveControl]) -> str:
    """Which positive controls do not beat the controls by this metric; empty where all do, and with too few images."""
    return "; ".join(words for control in controls if (words := _words(control)))


def is_surprising(controls: Iterable[PositiveControl]) -> bool:
    """Whether a positive control scores worse than a control, or like it, beyond doubt."""
    return any(control.comparison == "fail" for control in controls)


def _words(control: PositiveControl) -> str:
    name, against = control.row.method, control.against
    if control.comparison == "fail":
        if worse := [difference for difference in against if difference.worse]:
            return f"{name} scores worse than {_listed(worse)}"
        return f"{name} scores no better than {_listed([pair for pair in against if pair.alike])}, within the margin"
    if control.comparison == "inconclusive":
        return f"{name} is not clear of {_listed([pair for pair in against if not pair.better])}"
    return ""


def _listed(differences: Sequence[PairedDifference]) -> str:
    """The controls, each with the difference from it; positive is better."""
    return numbers.join_names([
        f"{each.control} (by {numbers.signed(each.mean)} {numbers.interval(each.low, each.high, each.n, signs=True)}, "
        f"n = {each.n})"
        for each in differences
    ])  # fmt: skip
