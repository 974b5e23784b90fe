"""Specs and scores written by hand, as a run keeps them."""

from __future__ import annotations

import pandas as pd

from snellen.verdicts import summarise


def method(label, control=False):
    return {"label": label, "control": control}


def metric(label="m", higher=True, undefined="never"):
    return {"label": label, "higher_is_better": higher, "undefined": undefined}


def axiom(tolerance=0.01):
    return metric("gap", higher=False) | {"tolerance": tolerance, "bounds": [0, None]}


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
