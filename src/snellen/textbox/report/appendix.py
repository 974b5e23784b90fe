"""What stands at the end of the report: every score of every bucket, what the methods are and cost, and the models."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pandas as pd

from snellen.charts import numbers
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, text_of
from snellen.textbox.exam import summaries
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.scoring import SCORES, Reading
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.report.dot_plots import score
from snellen.textbox.report.figures import PaperFigures
from snellen.textbox.scenes.objects import buckets, described


def tables(field: ExamResults, remade: PaperFigures) -> list[dict[str, Any]]:
    """Per setting and score: the mean of every bucket for every method, the oracle first."""
    found = []
    means = {of: summaries.bucket_means(remade.frame, of) for of in SCORES}
    for setting, exam in field.exams.items():
        objects = exam.spec.rule.objects
        shown = dict(enumerate((described(objects, one) for one in buckets(objects)), 1))
        tables = []
        for of in SCORES:
            wide = means[of][means[of]["setting"] == setting].pivot(index="method", columns="bucket", values="mean")
            wide = wide.loc[:, wide.notna().any()]
            defined = [int(bucket) for bucket in wide.columns]
            values = dict(zip(wide.index, wide.assign(average=wide.mean(axis=1)).to_numpy().tolist(), strict=True))
            rows = [
                {
                    "name": remade.names[one],
                    "oracle": one == ORACLE,
                    "control": one in field.controls,
                    "cells": [score(value) for value in (values[one][-1], *values[one][:-1])],
                }
                for one in remade.order
                if one in values
            ]
            columns = [{"bucket": bucket, "shown": shown[bucket]} for bucket in defined]
            tables.append({"score": of, "columns": columns, "rows": rows})
        found.append({"setting": setting, "tables": tables})
    return found


def ceilings(remade: PaperFigures) -> list[dict[str, Any]]:
    """Buckets in which even the perfect map cannot pass in the published reading."""
    frame = remade.frame[remade.frame["method"] == ORACLE]
    means = summaries.bucket_means(frame, "pafl")
    low = means[means["mean"] <= BAR]
    return [
        {"setting": name, "buckets": [int(one) for one in rows["bucket"]], "highest": f"{rows['mean'].max():.3f}"}
        for name, rows in low.groupby("setting", sort=False)
    ]


def as_csv(remade: Mapping[Reading, PaperFigures]) -> str:
    """The mean of every score in every bucket, in both readings, as a file that the page itself holds."""
    keys = ["setting", "bucket", "method"]
    parts = []
    for reading, one in remade.items():
        means = [summaries.bucket_means(one.frame, of).set_index(keys)["mean"].rename(of) for of in SCORES]
        parts.append(pd.concat(means, axis=1).reset_index().assign(reading=reading))
    text = pd.concat(parts).to_csv(index=False, float_format="%.4g", lineterminator="\n")
    return "data:text/csv;base64," + base64.b64encode(text.encode()).decode()


def methods(field: ExamResults, names: dict[str, str]) -> list[dict[str, Any]]:
    """What each method is, with which settings it ran, and who described it."""
    found = []
    for method in field.record["methods"]:
        if method["label"] not in field.methods:
            continue
        bare = plain_name(method["label"])
        facts = METHODS[bare].traits if bare in METHODS else None  # type: ignore[attr-defined]
        found.append({
            "name": names[method["label"]],
            "label": method["label"],
            "control": method["control"],
            "changed": method["changed"],
            "preset": _preset(method["label"], facts.presets) if facts else "",
            "summary": facts.summary if facts else "",
            "cite": CITATIONS.get(facts.cite, facts.cite) if facts else "",
        })  # fmt: skip
    return found


def _preset(label: str, presets: Mapping[str, Mapping[str, Any] | str]) -> str:
    """The settings that a label names by a preset alone."""
    held = presets.get(label.partition("(")[0].partition("@")[2], {})
    return "" if isinstance(held, str) else ", ".join(f"{key}={text_of(value)}" for key, value in held.items())


def left_out(field: ExamResults, names: dict[str, str]) -> list[dict[str, Any]]:
    """Methods that could not run, each with its reason and where."""
    return [
        {
            "method": names.get(method, method),
            "reason": reason,
            "settings": where,
            "everywhere": len(where) == len(field.settings),
        }
        for (method, reason), where in field.reasons.items()
    ]


def costs(field: ExamResults, names: dict[str, str]) -> list[dict[str, Any]]:
    """Seconds and passes of each method over all settings, the slowest first."""
    table = field.costs.groupby("method", sort=False)[["images", "forward", "backward", "seconds"]].sum()
    longest = float(table["seconds"].max()) if len(table) else 0.0
    return [
        {
            "name": names[str(method)],
            "control": method in field.controls,
            "seconds": numbers.duration(float(row["seconds"])),
            "each": numbers.duration(float(row["seconds"]) / max(1, int(row["images"]))),
            "forward": numbers.amount(float(row["forward"]) / max(1, int(row["images"]))),
            "backward": numbers.amount(float(row["backward"]) / max(1, int(row["images"]))),
            "share": 100 * float(row["seconds"]) / longest if longest else 0.0,
        }
        for method, row in table.sort_values("seconds", ascending=False).iterrows()
        if method in names
    ]


def model(name: str, network: TrainedNetwork) -> dict[str, Any]:
    """A network: how often it is right in every bucket, and how it was trained."""
    training, accuracy = network.record["training"], network.accuracy
    objects = network.spec.rule.objects
    shown = dict(enumerate((described(objects, bucket) for bucket in buckets(objects)), 1))
    values = list(accuracy.values())
    return {
        "name": name,
        "architecture": network.spec.architecture,
        "background": network.spec.background,
        "robust": network.spec.robust,
        "mean": f"{sum(values) / len(values):.1%}",
        "lowest": f"{min(values):.1%}",
        "images": numbers.short(training["images"]) if training["images"] else "not recorded",
        "time": numbers.duration(training["seconds"]) if training["seconds"] else "not recorded",
        "seed": training["seed_used"],
        "buckets": [{"bucket": one, "shown": shown[one], "accuracy": f"{value:.1%}"} for one, value in accuracy.items()],
        "training": _listed(training),
    }


def _listed(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {text_of(value)}" for key, value in facts.items())
