"""Specs and scores written by hand, as a run keeps them."""

from __future__ import annotations

import pandas as pd

from snellen.runs.record import MethodSpec, MetricSpec
from snellen.verdicts import summarise


def method(label, control=False):
    return MethodSpec(label=label, name=label, params={}, control=control, summary="", cite="", version=1)


def metric(label="m", higher=True, undefined="never", **facts):
    spec = MetricSpec(
        label=label, name=label, params={}, attribute="minimality", higher_is_better=higher, bounds=(None, None),
        undefined=undefined, summary="", cite="", version=1,
    )  # fmt: skip
    return spec.changed(**facts)


def axiom(tolerance=0.01):
    return metric("gap", higher=False, tolerance=tolerance, bounds=(0.0, None))


def long(values) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"sample": f"s{at:04d}", "method": name, "metric": by, "value": value}
            for (name, by), column in values.items()
            for at, value in enumerate(column)
        ]
    )


def summary_of(means: dict[str, float], controls: set[str], higher=True) -> pd.DataFrame:
    scores = long({(name, "m"): [value, value] for name, value in means.items()})
    return summarise(scores, [method(name, name in controls) for name in means], [metric("m", higher)])
