"""The audit of metrics: how well each orders maps as the truth does, and a verdict by a written rule."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from snellen.errors import SnellenError
from snellen.runs.progress import Observer, default_observer
from snellen.textbox.audit import agreement
from snellen.textbox.audit.audit_scores import IMAGES, AuditedMetric, AuditScores, choose_metrics, gather_scores
from snellen.textbox.audit.bootstrap_intervals import (
    BootstrapInterval,
    ImageGroup,
    ResampledMeasure,
    Resamples,
    draw_resamples,
)
from snellen.textbox.exam.oracle import DECOY
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.networks.trained_network import shipped_names
from snellen.verdicts import MINIMUM_IMAGES
from snellen.verdicts.statistics import holm

GUESSING = (0.4, 0.6)
"""An AUC whose whole interval lies in here is that of a metric that guesses, or nearly so."""

LEVEL = 0.05

NETWORKS = 2
"""With fewer, nothing can be concluded about other networks."""

MetricVerdict = Literal["sees", "faint", "shape", "blind", "misleads", "unclear", "too few"]

WORDS: Mapping[MetricVerdict, str] = {
    "sees": f"AUC of at least {GUESSING[1]}; the whole interval lies above .5, and so does that of preferring the oracle "
    "to its decoy",
    "faint": f"the same intervals, but an AUC below {GUESSING[1]}",
    "shape": f"the whole interval lies above .5, but that of preferring the oracle to its decoy reaches .5 and stays below "
    f"{GUESSING[1]}: it goes by the shape of a map, not by its place",
    "blind": f"the interval reaches .5, and all of it lies between {GUESSING[0]} and {GUESSING[1]}",
    "misleads": "the whole interval lies below .5",
    "unclear": "none of these is shown: the intervals are too wide",
    "too few": f"defined on fewer than {MINIMUM_IMAGES} images, or on fewer than {NETWORKS} networks",
}
"""The rule, about intervals over networks, maps and images."""

GROUPS = ("all", "simple", "complex")

MEASURES = ("tau", "auc", "clear", "own", "decoy")
"""Kendall's τ; AUC of success; AUC over clear differences; AUC of success among methods alone, without controls and oracle;
how often the oracle is preferred to its decoy."""


class AuditEstimate(NamedTuple):
    """One of `MEASURES` in a group of settings: mean, ends of the 95 % interval, and the number of images."""

    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, kw_only=True)
class AuditCell:
    """One metric in one group of settings."""

    estimates: Mapping[str, AuditEstimate]
    """By measure."""
    verdict: MetricVerdict
    """On the AUC of success."""
    own_verdict: MetricVerdict
    """On that among methods alone."""
    p: float
    own_p: float
    """P-values of the two, corrected by Holm."""
    scores: int
    undefined: int
    """How many scores, and how many of them are NaN."""
    oracle_top: float
    oracle_above: float
    fooled: float
    """Shares of images, as in `Audit`."""
    fooled_by: str
    """The control that fools it most often; empty where none does."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Audit:
    """The verdict on every metric.

    `table` has a row per metric and group of settings: all, simple and complex settings, and each alone.

    Columns: for each of `MEASURES` its mean over images, interval (`_low`, `_high`), number of images (`_n`) and of networks
    (`_networks`), and the standard errors of networks, maps and images alone (`_error_networks` and so on);
    `verdict` of the AUC of success and `own_verdict` of that among methods alone; `p` and `own_p`, corrected by Holm;
    `undefined` of `scores` that are NaN; `oracle_top`, the share of images on which no map is ranked above the oracle's;
    `oracle_above`, on which it is above every control; `fooled`, on which a control that fails has or shares the first
    place, and `fooled_by`, the control that does so most often.
    """

    scores: AuditScores
    """The scores of all metrics, and the truth of all maps."""
    table: pd.DataFrame
    """See above."""
    left_out: Mapping[str, str]
    """By metric why it was not audited."""
    seconds: float
    """Time of all runs."""

    @property
    def order(self) -> list[AuditedMetric]:
        """The audited metrics, the best in complex settings (or else in simple ones) first, then references."""
        group = "complex" if "complex" in set(self.table["group"]) else "simple"
        ranks = self.table[self.table["group"] == group].set_index("metric")["auc"].fillna(-1.0)
        references = [metric for metric in self.scores.metrics if metric.role != "on trial"]
        return [*sorted(self.audited, key=lambda metric: -float(ranks[metric.label])), *references]

    @property
    def audited(self) -> list[AuditedMetric]:
        """The metrics without references."""
        return [metric for metric in self.scores.metrics if metric.role == "on trial"]

    @property
    def groups(self) -> list[str]:
        """All settings, simple and complex ones, as far as there are both."""
        return [group for group in GROUPS if group in set(self.table["group"])]

    @property
    def settings(self) -> list[str]:
        """The names of the settings."""
        return list(dict.fromkeys(self.scores.setting))

    def size(self, group: str) -> tuple[int, int]:
        """How many images and how many networks a group has."""
        rows = [row for row, simple in enumerate(self.scores.simple) if group == "all" or simple == (group == "simple")]
        return len(rows), len({self.scores.setting[row] for row in rows})

    def cell(self, metric: str, group: str) -> AuditCell:
        """A metric in a group."""
        row = self._row(metric, group)
        return AuditCell(estimates=_estimates(row), **{name: row[name] for name in _CELL_COLUMNS})

    def setting_estimates(self, metric: str, setting: str) -> dict[str, AuditEstimate]:
        """The estimates of a metric in one setting, by measure; verdicts are on groups of settings only."""
        return _estimates(self._row(metric, setting))

    def _row(self, metric: str, group: str) -> dict[Hashable, Any]:
        return self.table[(self.table["metric"] == metric) & (self.table["group"] == group)].to_dict("records")[0]

    def believed(self, group: str) -> tuple[list[str], list[str]]:
        """The metrics that see the truth in a group also among methods alone, and those that see it otherwise.

        The latter distinguish a method from controls or from a perfect map, but are not shown to distinguish methods.
        """
        seeing = [
            metric.label
            for metric in self.order
            if metric.role == "on trial" and self.cell(metric.label, group).verdict == "sees"
        ]
        alone = [label for label in seeing if self.cell(label, group).own_verdict == "sees"]
        return alone, [label for label in seeing if label not in alone]

    def method_table(self) -> pd.DataFrame:
        """The mean truth of each method's maps in simple and in complex settings, and how often they succeed."""
        rows = []
        simple = np.array(self.scores.simple)
        for column, (method, kind) in enumerate(zip(self.scores.methods, self.scores.kinds, strict=True)):
            row: dict[str, Any] = {"method": method, "kind": kind}
            for group in self.groups:
                inside = np.ones_like(simple) if group == "all" else simple == (group == "simple")
                values = self.scores.truth[inside, column]
                defined = values[~np.isnan(values)]
                row |= {
                    group: defined.mean() if len(defined) else np.nan,
                    f"{group}_success": (defined > BAR).mean() if len(defined) else np.nan,
                    f"{group}_n": len(defined),
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def write_csv(self, path: Path) -> Path:
        """Writes the table to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.table.to_csv(path, index=False, lineterminator="\n")
        return path

    def write_truth(self, path: Path) -> Path:
        """Writes how well each metric follows the truth in complex settings: the table that cards read."""
        rows = self.table[
            (self.table["group"] == "complex") & (self.table["role"] == "on trial") & (self.table["auc_n"] > 0)
        ]
        names = [str(label).partition("(")[0] for label in rows["metric"]]
        ends = {key: rows[column].map("{:.4f}".format) for key, column in _TRUTH.items()}
        table = pd.DataFrame({"metric": names, **ends, "n": rows["auc_n"], "verdict": rows["verdict"]})
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(path, index=False, lineterminator="\n")
        return path


_CELL_COLUMNS = tuple(field.name for field in fields(AuditCell) if field.name != "estimates")
_TRUTH = {"auc": "auc", "low": "auc_low", "high": "auc_high"}


def _estimates(row: Mapping[Hashable, Any]) -> dict[str, AuditEstimate]:
    return {
        measure: AuditEstimate(
            mean=row[measure],
            low=row[f"{measure}_low"],
            high=row[f"{measure}_high"],
            n=row[f"{measure}_n"],
        )
        for measure in MEASURES
    }


def audit(
    settings: Sequence[str] | None = None,
    methods: Sequence[Any] | None = None,
    metrics: Sequence[Any] | None = None,
    *,
    out: str | Path,
    images: int = IMAGES,
    observer: Observer | None = None,
) -> Audit:
    """Audits metrics on the shipped networks or on these, which may be folders of trained networks."""
    chosen, left_out = choose_metrics(metrics)
    names = list(settings or shipped_names())
    if not names:
        raise SnellenError("no setting was named, and no network comes with this installation; train one first")
    scores, runs = gather_scores(
        names, Path(out), methods=methods, metrics=chosen, images=images, observer=observer or default_observer()
    )
    seconds = sum(run.record.totals.wall_seconds for run in runs if run.record.totals)
    return Audit(scores=scores, table=audit_table(scores), left_out=left_out, seconds=seconds)


def audit_table(scores: AuditScores) -> pd.DataFrame:
    """The table of an audit."""
    simple = np.array(scores.simple)
    settings = np.array(scores.setting)
    kinds = {"simple": simple, "complex": ~simple}
    both = {"all": np.ones_like(simple)} if simple.any() and not simple.all() else {}
    masks = both | kinds | {name: settings == name for name in dict.fromkeys(scores.setting)}
    resamples = draw_resamples(scores.setting, scores.strata, scores.kinds)
    groups = {name: resamples.group(np.flatnonzero(inside).tolist()) for name, inside in masks.items() if inside.any()}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in groups}
    for metric in scores.metrics:
        quality = scores.quality(metric)
        measures = _measures(scores, quality, resamples)
        for name, group in groups.items():
            rows[name].append(_row(scores, metric, name, group, quality[group.chosen], measures))
    table = pd.DataFrame([row for name in groups for row in rows[name]])
    for p, verdict, measure in (("p", "verdict", "auc"), ("own_p", "own_verdict", "own")):
        tested = (table["role"] == "on trial") & table["group"].isin(GROUPS) & (table[f"{measure}_n"] >= MINIMUM_IMAGES)
        table.loc[tested, p] = holm(table.loc[tested, p].to_numpy(dtype=np.float64))
        table[verdict] = [
            verdict_of(
                row[measure],
                row[f"{measure}_low"],
                row[f"{measure}_high"],
                images=int(row[f"{measure}_n"]),
                networks=int(row[f"{measure}_networks"]),
                decoy=(row["decoy_low"], row["decoy_high"]),
            )
            if row["group"] in GROUPS
            else ""
            for _, row in table.iterrows()
        ]
    return table


def verdict_of(
    auc: float, low: float, high: float, *, images: int, networks: int, decoy: tuple[float, float]
) -> MetricVerdict:
    """The verdict on an AUC with its interval, by the rule of `WORDS`.

    Args:
        auc: The AUC.
        low: The lower end of its interval.
        high: The upper end.
        images: How many images it is computed from.
        networks: How many networks these come from.
        decoy: The interval of how often the oracle is preferred to its decoy; NaN where that is undefined.

    """
    if images < MINIMUM_IMAGES or networks < NETWORKS:
        return "too few"
    if high < 0.5:
        return "misleads"
    if low > 0.5 and not decoy[0] <= 0.5:
        return "sees" if auc >= GUESSING[1] else "faint"
    if low > 0.5 and decoy[1] < GUESSING[1]:
        return "shape"
    return "blind" if GUESSING[0] < low <= 0.5 and high < GUESSING[1] else "unclear"


def _measures(
    scores: AuditScores, quality: Float[np.ndarray, "images methods"], resamples: Resamples
) -> dict[str, ResampledMeasure]:
    """Every measure of a metric; methods and controls are resampled, the oracle and its decoy are not."""
    truth = scores.truth
    everything, own = list(range(len(scores.methods))), scores.columns("method")
    twins = [*scores.columns("oracle"), scores.methods.index(DECOY)]
    return {
        "tau": resamples.measure(agreement.tau(truth, quality), everything),
        "auc": resamples.measure(agreement.auc_of_success(truth, quality), everything),
        "clear": resamples.measure(agreement.auc_of_difference(truth, quality), everything),
        "own": resamples.measure(agreement.auc_of_success(truth[:, own], quality[:, own]), own),
        "decoy": resamples.measure(agreement.auc_of_success(truth[:, twins], quality[:, twins])),
    }


def _row(
    scores: AuditScores,
    metric: AuditedMetric,
    name: str,
    group: ImageGroup,
    quality: Float[np.ndarray, "images methods"],
    measures: Mapping[str, ResampledMeasure],
) -> dict[str, Any]:
    """The row of one metric in one group of images."""
    intervals = {
        name: group.interval(measure, bounds=(-1.0 if name == "tau" else 0.0, 1.0)) for name, measure in measures.items()
    }
    undefined = np.isnan(scores.scores[metric.label][group.chosen])
    return {
        "metric": metric.label,
        "attribute": metric.attribute,
        "higher_is_better": metric.higher_is_better,
        "role": metric.role,
        "group": name,
        "images": len(group.chosen),
        "scores": undefined.size,
        "undefined": int(undefined.sum()),
        **{key: value for measure in MEASURES for key, value in _interval_columns(intervals[measure], measure).items()},
        "p": intervals["auc"].p_value(0.5),
        "own_p": intervals["own"].p_value(0.5),
        **_oracle_and_controls(scores, scores.truth[group.chosen], quality),
    }


def _interval_columns(interval: BootstrapInterval, measure: str) -> dict[str, float]:
    return {
        measure: interval.mean,
        f"{measure}_low": interval.low,
        f"{measure}_high": interval.high,
        f"{measure}_n": interval.images,
        f"{measure}_networks": interval.networks,
        **{f"{measure}_error_{factor}": error for factor, error in interval.errors.items()},
    }


def _oracle_and_controls(
    scores: AuditScores, truth: Float[np.ndarray, "images methods"], quality: Float[np.ndarray, "images methods"]
) -> dict[str, Any]:
    """How a metric ranks the oracle and the controls."""
    controls, (oracle, *_) = scores.columns("control"), scores.columns("oracle")
    ranked = np.where(np.isnan(quality), -np.inf, quality)
    defined = ~np.isnan(quality[:, oracle])
    best = ranked.max(axis=1)
    rated = np.isfinite(best)
    top = ranked[defined, oracle] >= best[defined]
    above = ranked[defined, oracle] > ranked[np.ix_(defined, controls)].max(axis=1)
    winning = (ranked[:, controls] == best[:, None]) & ~(truth[:, controls] > BAR) & rated[:, None]
    wins = winning.sum(axis=0)
    return {
        "oracle_n": int(defined.sum()),
        "oracle_top": float(top.mean()) if defined.any() else np.nan,
        "oracle_above": float(above.mean()) if defined.any() else np.nan,
        "fooled": float(winning.any(axis=1)[rated].mean()) if rated.any() else np.nan,
        "fooled_by": scores.methods[controls[int(wins.argmax())]] if wins.any() else "",
    }
