"""From scores per image to the numbers of the figures of Kim, Plumb and Talwalkar (2022): means of buckets, and the worst.

The *frame* has one row per setting, sample and method, with the columns of `COLUMNS`. An average is the mean of the means of
buckets, so that each bucket counts the same. Scores that are undefined are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pandas as pd

from snellen.errors import SnellenError, nearest
from snellen.textbox.exam.scoring import LOWER_IS_BETTER, SCORES

COLUMNS = ("setting", "simple", "bucket", "visible", "sample", "method", *SCORES)
BAR = 0.5
"""A method succeeds in a bucket in which more than this share of its maps lies on what they should focus on."""

_BUCKET = ["setting", "simple", "bucket", "visible"]


def bucket_means(frame: pd.DataFrame, score: str = "pafl") -> pd.DataFrame:
    """One row per setting, bucket and method: the mean over its images, how many were defined (`n`), and how many not."""
    _check(frame, score)
    groups = frame.groupby([*_BUCKET, "method"], sort=False)[score]
    means = groups.agg(mean="mean", n="count", images="size").reset_index()
    means["undefined"] = means.pop("images") - means["n"]
    return means


def means_of(frame: pd.DataFrame, scores: Sequence[str] = SCORES) -> pd.DataFrame:
    """One row per setting, bucket and method: the mean of each of these scores over its images."""
    tables = [
        bucket_means(frame, score).rename(columns={"mean": score}).drop(columns=["n", "undefined"]) for score in scores
    ]
    return reduce(pd.merge, tables)


def with_outcomes(means: pd.DataFrame) -> pd.DataFrame:
    """Adds the outcome of each method in each bucket (Fig. 7) to means of buckets, PAFL and SAFL among them.

    `contested`: the bucket has something to focus on and something to avoid, so that some method has both means there.
    `defined`: this method has both means. `success`: PAFL above one half. `failure`: SAFL above PAFL. A method without
    means, because its maps are zero, neither succeeds nor fails.
    """
    defined = means["pafl"].notna() & means["safl"].notna()
    return means.assign(
        defined=defined,
        contested=defined.groupby([means["setting"], means["bucket"]]).transform("any"),
        success=means["pafl"] > BAR,
        failure=means["safl"] > means["pafl"],
    )


def averages(frame: pd.DataFrame, score: str = "pafl", by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """The mean of the means of buckets, with their standard deviation as `spread`, for each value of the columns `by`.

    `buckets` are those with a mean, `undefined` the images without a score. The deviation is the published one, over all
    buckets rather than a sample of them. Settings are kept apart by `by=("setting", "method")`, the simple ones from the
    complex ones by `("simple", "method")`.
    """
    groups = bucket_means(frame, score).groupby(list(by), sort=False)
    table = groups["mean"].agg(mean="mean", spread=lambda values: values.std(ddof=0), buckets="count")
    table["undefined"] = groups["undefined"].sum()
    return table.reset_index()


def by_visible(frame: pd.DataFrame, score: str = "pafl") -> pd.DataFrame:
    """Averages by the number of objects shown (Fig. 6b), simple and complex settings apart."""
    table = averages(frame, score, ("simple", "visible", "method"))
    return table.sort_values(["simple", "visible"], ascending=[False, True], kind="stable", ignore_index=True)


def worst(frame: pd.DataFrame, score: str = "pafl", by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """The worst bucket for each value of `by`: its setting, its number and its mean; the first of several equal ones.

    The worst mean is the lowest, or the highest for scores of what should be avoided. It is NaN without a defined bucket.
    """
    means = bucket_means(frame, score)
    sign = -1.0 if score in LOWER_IS_BETTER else 1.0
    rows = []
    for key, group in means.groupby(list(by), sort=False):
        fields = dict(zip(by, key, strict=True))
        if group["mean"].isna().all():
            rows.append({**fields, "setting": fields.get("setting"), "bucket": pd.NA, "mean": np.nan})
        else:
            row = group.iloc[int(np.nanargmin((sign * group["mean"]).to_numpy()))]
            rows.append({**fields, "setting": row["setting"], "bucket": row["bucket"], "mean": row["mean"]})
    columns = list(dict.fromkeys([*by, "setting", "bucket", "mean"]))
    return pd.DataFrame(rows, columns=columns).astype({"bucket": "Int64", "mean": np.float64})


def success(frame: pd.DataFrame) -> pd.DataFrame:
    """In what share of a setting's buckets each method succeeds: mean PAFL above one half (Fig. 7, top).

    Only buckets with something to focus on and something to avoid count. `undefined` are those of them in which this method
    has no mean, though another has.
    """
    return _shares(frame, "success")


def failure(frame: pd.DataFrame) -> pd.DataFrame:
    """In what share of a setting's buckets a map lies more on what it should avoid: SAFL above PAFL (Fig. 7, bottom).

    `fails` where that is more than half of them. Buckets count as for `success`.
    """
    table = _shares(frame, "failure")
    table["fails"] = (table["share"] > 0.5).astype("boolean").mask(table["share"].isna())
    return table


def simple_and_complex(frame: pd.DataFrame, score: str = "pafl") -> pd.DataFrame:
    """Average, and worst bucket as `minimum`, over all buckets of the simple and of the complex settings (Fig. 2)."""
    keys = ("simple", "method")
    lowest = worst(frame, score, keys).rename(columns={"mean": "minimum"})
    table = averages(frame, score, keys).rename(columns={"mean": "average"})
    return table.merge(lowest, on=list(keys), how="left")


def _shares(frame: pd.DataFrame, outcome: str) -> pd.DataFrame:
    means = with_outcomes(means_of(frame, ("pafl", "safl")))
    defined = means["defined"]
    means = means.assign(holds=means[outcome] & defined, missing=means["contested"] & ~defined)
    groups = means.groupby(["setting", "simple", "method"], sort=False)
    table = groups.agg(held=("holds", "sum"), buckets=("defined", "sum"), undefined=("missing", "sum")).reset_index()
    table["share"] = table.pop("held") / table["buckets"].where(table["buckets"] > 0)
    return table[["setting", "simple", "method", "share", "buckets", "undefined"]]


def _check(frame: pd.DataFrame, score: str) -> None:
    if score not in SCORES:
        raise SnellenError(f"there is no score '{score}'{nearest(score, SCORES) or '; there are ' + ', '.join(SCORES)}")
    missing = [column for column in (*_BUCKET, "sample", "method", score) if column not in frame.columns]
    if missing:
        raise SnellenError(f"a frame of scores needs the columns {', '.join(COLUMNS)}, but lacks {', '.join(missing)}")
