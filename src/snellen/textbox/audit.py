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
from snellen.textbox import agreement
from snellen.textbox.agreement import Interval, interval_over_images
from snellen.textbox.oracle import DECOY
from snellen.textbox.reasoners import shipped
from snellen.textbox.summaries import BAR
from snellen.textbox.trials import IMAGES, Trial, Tried, chosen_metrics, hold
from snellen.verdicts import MINIMUM_IMAGES
from snellen.verdicts.statistics import holm

SEES = 0.6
"""A metric sees the truth when all of the interval of its AUC lies above this: right at least three times in five."""

LEVEL = 0.05

Verdict = Literal["sees", "faint", "shape", "blind", "misleads", "unclear", "too few"]

WORDS: Mapping[Verdict, str] = {
    "sees": f"prefers the right map more often than guessing would, and the whole interval lies above {SEES}",
    "faint": f"prefers the right map more often than guessing would, but the interval reaches below {SEES}",
    "shape": "prefers the right map more often than guessing would, but is not shown to prefer the oracle's to the same map "
    "in another place",
    "blind": f"not told from guessing, and the whole interval lies between {1 - SEES:.1f} and {SEES}",
    "misleads": "prefers the wrong map more often than guessing would",
    "unclear": "not told from guessing, nor shown to guess: the interval is too wide",
    "too few": f"defined on fewer than {MINIMUM_IMAGES} images",
}
"""The rule. More often than guessing means: p below .05 after Holm's correction over all metrics on trial, in the simple and
in the complex settings together."""

GROUPS = ("simple", "complex")

MEASURES = ("tau", "auc", "clear", "own", "decoy")
"""Kendall's τ; AUC of success; AUC over clear differences; AUC of success among methods alone, no control and no oracle; how
often the oracle is preferred to its decoy."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The verdict on every metric. `table` has a row per metric and group: simple, complex, and every setting alone.

    Columns: for each of `MEASURES` its mean over images, interval (`_low`, `_high`) and number of images (`_n`); `p` and
    `verdict` of the AUC of success, `own_p` and `own_verdict` of that among methods alone, the p values corrected;
    `undefined` of `scores` that are NaN; `oracle_top`, the share of images on which no map is ranked above the oracle's;
    `oracle_above`, on which it is above every control; `fooled`, on which a control that fails has or shares the first
    place, and `fooled_by`, the control that does so most often.
    """

    trial: Trial
    table: pd.DataFrame
    left_out: Mapping[str, str]
    seconds: float

    @property
    def order(self) -> list[Tried]:
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
        """Simple and complex, as far as there are such settings."""
        return [one for one in GROUPS if one in set(self.table["group"])]

    @property
    def settings(self) -> list[str]:
        """The names of the settings."""
        return list(dict.fromkeys(self.trial.setting))

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
                values = self.trial.truth[simple == (group == "simple"), column]
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
    seconds = sum(float(run.record["totals"]["wall_seconds"]) for run in runs)
    return Audit(trial, judged(trial), left_out, seconds)


def judged(trial: Trial) -> pd.DataFrame:
    """The table of an audit."""
    simple = np.array(trial.simple)
    settings = np.array(trial.setting)
    groups = {"simple": simple, "complex": ~simple} | {name: settings == name for name in dict.fromkeys(trial.setting)}
    rows = [
        row
        for name, inside in groups.items()
        if inside.any()
        for row in _group(trial, name, np.flatnonzero(inside).tolist())
    ]
    table = pd.DataFrame(rows)
    for p, verdict, measure in (("p", "verdict", "auc"), ("own_p", "own_verdict", "own")):
        tried = (table["role"] == "on trial") & table["group"].isin(GROUPS) & (table[f"{measure}_n"] >= MINIMUM_IMAGES)
        table.loc[tried, p] = holm(table.loc[tried, p].to_numpy(dtype=np.float64))
        table[verdict] = [
            verdict_of(
                row[measure],
                row[f"{measure}_low"],
                row[f"{measure}_high"],
                int(row[f"{measure}_n"]),
                row[p],
                decoy=row["decoy_low"],
            )
            if row["group"] in GROUPS
            else ""
            for _, row in table.iterrows()
        ]
    return table


def verdict_of(auc: float, low: float, high: float, n: int, p: float, *, decoy: float) -> Verdict:
    """The rule of `WORDS`, for an AUC with its interval and corrected p value.

    `decoy` is the low end of the interval of how often the oracle is preferred to its decoy; NaN where it has no answer.
    """
    if n < MINIMUM_IMAGES:
        return "too few"
    if p < LEVEL and auc < 0.5:
        return "misleads"
    if p < LEVEL and decoy <= 0.5:
        return "shape"
    if p < LEVEL:
        return "sees" if low > SEES else "faint"
    return "blind" if low > 1 - SEES and high < SEES else "unclear"


def _group(trial: Trial, name: str, images: list[int]) -> list[dict[str, Any]]:
    """The rows of one group, whose metrics share their draws of images."""
    truth = trial.truth[images]
    own = trial.places("method")
    twins = [*trial.places("oracle"), trial.methods.index(DECOY)]
    columns, qualities = [], {}
    for metric in trial.metrics:
        quality = qualities[metric.label] = trial.quality(metric)[images]
        columns += [
            agreement.tau(truth, quality),
            agreement.auc_of_success(truth, quality),
            agreement.auc_of_difference(truth, quality),
            agreement.auc_of_success(truth[:, own], quality[:, own]),
            agreement.auc_of_success(truth[:, twins], quality[:, twins]),
        ]
    found = interval_over_images(np.stack(columns, axis=1), trial.strata[images])
    chances = found.chance(0.5)
    rows = []
    for place, metric in enumerate(trial.metrics):
        at = {measure: place * len(MEASURES) + step for step, measure in enumerate(MEASURES)}
        undefined = np.isnan(trial.scores[metric.label][images])
        rows.append(
            {
                "metric": metric.label,
                "attribute": metric.attribute,
                "higher_is_better": metric.higher_is_better,
                "role": metric.role,
                "group": name,
                "images": len(images),
                "scores": undefined.size,
                "undefined": int(undefined.sum()),
                **{key: value for measure in MEASURES for key, value in _ends(found, at[measure], measure).items()},
                "p": chances[at["auc"]],
                "own_p": chances[at["own"]],
                **_places(trial, truth, qualities[metric.label]),
            }
        )
    return rows


def _ends(found: Interval, at: int, measure: str) -> dict[str, float]:
    return {
        measure: float(found.mean[at]),
        f"{measure}_low": float(found.low[at]),
        f"{measure}_high": float(found.high[at]),
        f"{measure}_n": int(found.n[at]),
    }


def _places(
    trial: Trial, truth: Float[np.ndarray, "images methods"], quality: Float[np.ndarray, "images methods"]
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
