"""Which metrics can be believed: how well each orders maps as the truth does, and a verdict by a written rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from snellen.errors import SnellenError
from snellen.runs.progress import Observer, default_observer
from snellen.textbox.audit import agreement
from snellen.textbox.audit.audit_scores import IMAGES, AuditedMetric, AuditScores, chosen_metrics, hold
from snellen.textbox.audit.bootstrap_intervals import Draws, Group, Interval, Spread, draws
from snellen.textbox.exam.oracle import DECOY
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.networks.trained_network import shipped
from snellen.verdicts import MINIMUM_IMAGES
from snellen.verdicts.statistics import holm

GUESSING = (0.4, 0.6)
"""An AUC whose whole interval lies in here is that of a metric that guesses, or nearly so."""

LEVEL = 0.05

NETWORKS = 2
"""With fewer, nothing can be said about other networks."""

Verdict = Literal["sees", "faint", "shape", "blind", "misleads", "unclear", "too few"]

WORDS: Mapping[Verdict, str] = {
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
"""The rule, about intervals in which networks, maps and images are all drawn again."""

GROUPS = ("all", "simple", "complex")

MEASURES = ("tau", "auc", "clear", "own", "decoy")
"""Kendall's τ; AUC of success; AUC over clear differences; AUC of success among methods alone, no control and no oracle; how
often the oracle is preferred to its decoy."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdict on every metric. `table` has a row per metric and group: all, simple and complex settings, and each alone.

    Columns: for each of `MEASURES` its mean over images, interval (`_low`, `_high`), number of images (`_n`) and of networks
    (`_networks`), and the standard errors that networks, maps and images bring alone (`_error_networks` and so on);
    `verdict` of the AUC of success and `own_verdict` of that among methods alone; `p` and `own_p`, corrected by Holm;
    `undefined` of `scores` that are NaN; `oracle_top`, the share of images on which no map is ranked above the oracle's;
    `oracle_above`, on which it is above every control; `fooled`, on which a control that fails has or shares the first
    place, and `fooled_by`, the control that does so most often.
    """

    trial: AuditScores
    table: pd.DataFrame
    left_out: Mapping[str, str]
    seconds: float

    @property
    def order(self) -> list[AuditedMetric]:
        """The metrics on trial, best in complex settings first (simple ones where there is no complex), then references."""
        group = "complex" if "complex" in set(self.table["group"]) else "simple"
        ranks = self.table[self.table["group"] == group].set_index("metric")["auc"].fillna(-1.0)
        on_trial = [one for one in self.trial.metrics if one.role == "on trial"]
        return [
            *sorted(on_trial, key=lambda one: -float(ranks[one.label])),
            *(one for one in self.trial.metrics if one.role != "on trial"),
        ]

    @property
    def groups(self) -> list[str]:
        """All settings, simple and complex ones, as far as there are both."""
        return [one for one in GROUPS if one in set(self.table["group"])]

    @property
    def settings(self) -> list[str]:
        """The names of the settings."""
        return list(dict.fromkeys(self.trial.setting))

    def size(self, group: str) -> tuple[int, int]:
        """How many images and how many networks a group has."""
        inside = [at for at, simple in enumerate(self.trial.simple) if group == "all" or simple == (group == "simple")]
        return len(inside), len({self.trial.setting[at] for at in inside})

    def cell(self, metric: str, group: str) -> Mapping[str, Any]:
        """The row of a metric in a group."""
        found = self.table[(self.table["metric"] == metric) & (self.table["group"] == group)]
        return {str(key): value for key, value in found.iloc[0].items()}

    def believed(self, group: str) -> tuple[list[str], list[str]]:
        """The metrics that see the truth in a group among methods alone too, and those that see it otherwise.

        The latter tell a method from nonsense or from perfection, but are not shown to tell one method from another.
        """
        seeing = [
            one.label for one in self.order if one.role == "on trial" and self.cell(one.label, group)["verdict"] == "sees"
        ]
        alone = [label for label in seeing if self.cell(label, group)["own_verdict"] == "sees"]
        return alone, [label for label in seeing if label not in alone]

    def field(self) -> pd.DataFrame:
        """The mean truth of each method's maps in simple and in complex settings, and how often they succeed."""
        rows = []
        simple = np.array(self.trial.simple)
        for column, (method, kind) in enumerate(zip(self.trial.methods, self.trial.kinds, strict=True)):
            row: dict[str, Any] = {"method": method, "kind": kind}
            for group in self.groups:
                values = (
                    self.trial.truth[:, column]
                    if group == "all"
                    else self.trial.truth[simple == (group == "simple"), column]
                )
                known = values[~np.isnan(values)]
                row |= {
                    group: known.mean() if len(known) else np.nan,
                    f"{group}_success": (known > BAR).mean() if len(known) else np.nan,
                    f"{group}_n": len(known),
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def write_csv(self, path: Path) -> Path:
        """The table as a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.table.to_csv(path, index=False, lineterminator="\n")
        return path

    def write_truth(self, path: Path) -> Path:
        """What other rooms need to know of each metric: how well it follows the truth in complex settings."""
        rows = self.table[
            (self.table["group"] == "complex") & (self.table["role"] == "on trial") & (self.table["auc_n"] > 0)
        ]
        names = [str(label).partition("(")[0] for label in rows["metric"]]
        ends = {key: rows[column].map("{:.4f}".format) for key, column in _TRUTH.items()}
        known = pd.DataFrame({"metric": names, **ends, "n": rows["auc_n"], "verdict": rows["verdict"]})
        path.parent.mkdir(parents=True, exist_ok=True)
        known.to_csv(path, index=False, lineterminator="\n")
        return path


_TRUTH = {"auc": "auc", "low": "auc_low", "high": "auc_high"}


def audit(
    settings: Sequence[str] | None = None,
    methods: Sequence[Any] | None = None,
    metrics: Sequence[Any] | None = None,
    *,
    out: str | Path,
    images: int = IMAGES,
    observer: Observer | None = None,
) -> Audit:
    """Puts metrics on trial on the shipped settings or on these, which may be folders of trained reasoners."""
    chosen, left_out = chosen_metrics(metrics)
    wanted = list(settings or shipped())
    if not wanted:
        raise SnellenError("no setting was named, and no reasoner comes with this installation; train one first")
    trial, runs = hold(
        wanted, Path(out), methods=methods, metrics=chosen, images=images, observer=observer or default_observer()
    )
    seconds = sum(run.record.totals.wall_seconds for run in runs if run.record.totals)
    return Audit(trial, judged(trial), left_out, seconds)


def judged(trial: AuditScores) -> pd.DataFrame:
    """The table of an audit."""
    simple = np.array(trial.simple)
    settings = np.array(trial.setting)
    kinds = {"simple": simple, "complex": ~simple}
    both = {"all": np.ones_like(simple)} if simple.any() and not simple.all() else {}
    masks = both | kinds | {name: settings == name for name in dict.fromkeys(trial.setting)}
    drawn = draws(trial.setting, trial.strata, trial.kinds)
    groups = {name: drawn.inside(np.flatnonzero(inside).tolist()) for name, inside in masks.items() if inside.any()}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in groups}
    for metric in trial.metrics:
        quality = trial.quality(metric)
        spreads = _spreads(trial, quality, drawn)
        for name, group in groups.items():
            rows[name].append(_row(trial, metric, name, group, quality[group.chosen], spreads))
    table = pd.DataFrame([row for name in groups for row in rows[name]])
    for p, verdict, measure in (("p", "verdict", "auc"), ("own_p", "own_verdict", "own")):
        tried = (table["role"] == "on trial") & table["group"].isin(GROUPS) & (table[f"{measure}_n"] >= MINIMUM_IMAGES)
        table.loc[tried, p] = holm(table.loc[tried, p].to_numpy(dtype=np.float64))
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


def verdict_of(auc: float, low: float, high: float, *, images: int, networks: int, decoy: tuple[float, float]) -> Verdict:
    """The rule of `WORDS`, for an AUC with its interval.

    `decoy` is the interval of how often the oracle is preferred to its decoy; NaN where that has no answer.
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


def _spreads(trial: AuditScores, quality: Float[np.ndarray, "images methods"], drawn: Draws) -> dict[str, Spread]:
    """Every measure of a metric; methods and controls are drawn again, the oracle and its decoy are what they are."""
    truth = trial.truth
    everything, own = list(range(len(trial.methods))), trial.places("method")
    twins = [*trial.places("oracle"), trial.methods.index(DECOY)]
    return {
        "tau": drawn.spread(agreement.tau(truth, quality), everything),
        "auc": drawn.spread(agreement.auc_of_success(truth, quality), everything),
        "clear": drawn.spread(agreement.auc_of_difference(truth, quality), everything),
        "own": drawn.spread(agreement.auc_of_success(truth[:, own], quality[:, own]), own),
        "decoy": drawn.spread(agreement.auc_of_success(truth[:, twins], quality[:, twins])),
    }


def _row(
    trial: AuditScores,
    metric: AuditedMetric,
    name: str,
    group: Group,
    quality: Float[np.ndarray, "images methods"],
    spreads: Mapping[str, Spread],
) -> dict[str, Any]:
    """The row of one metric in one group of images."""
    found = {
        measure: group.interval(spread, bounds=(-1.0 if measure == "tau" else 0.0, 1.0))
        for measure, spread in spreads.items()
    }
    undefined = np.isnan(trial.scores[metric.label][group.chosen])
    return {
        "metric": metric.label,
        "attribute": metric.attribute,
        "higher_is_better": metric.higher_is_better,
        "role": metric.role,
        "group": name,
        "images": len(group.chosen),
        "scores": undefined.size,
        "undefined": int(undefined.sum()),
        **{key: value for measure in MEASURES for key, value in _ends(found[measure], measure).items()},
        "p": found["auc"].chance(0.5),
        "own_p": found["own"].chance(0.5),
        **_places(trial, trial.truth[group.chosen], quality),
    }


def _ends(found: Interval, measure: str) -> dict[str, float]:
    return {
        measure: found.mean,
        f"{measure}_low": found.low,
        f"{measure}_high": found.high,
        f"{measure}_n": found.images,
        f"{measure}_networks": found.networks,
        **{f"{measure}_error_{factor}": error for factor, error in found.errors.items()},
    }


def _places(
    trial: AuditScores, truth: Float[np.ndarray, "images methods"], quality: Float[np.ndarray, "images methods"]
) -> dict[str, Any]:
    """Where a metric ranks the oracle and the controls."""
    controls, (oracle, *_) = trial.places("control"), trial.places("oracle")
    known = np.where(np.isnan(quality), -np.inf, quality)
    asked = ~np.isnan(quality[:, oracle])
    best = known.max(axis=1)
    rated = np.isfinite(best)
    top = known[asked, oracle] >= best[asked]
    above = known[asked, oracle] > known[np.ix_(asked, controls)].max(axis=1)
    winning = (known[:, controls] == best[:, None]) & ~(truth[:, controls] > BAR) & rated[:, None]
    often = winning.sum(axis=0)
    return {
        "oracle_n": int(asked.sum()),
        "oracle_top": float(top.mean()) if asked.any() else np.nan,
        "oracle_above": float(above.mean()) if asked.any() else np.nan,
        "fooled": float(winning.any(axis=1)[rated].mean()) if rated.any() else np.nan,
        "fooled_by": trial.methods[controls[int(often.argmax())]] if often.any() else "",
    }
