"""The end of the report: every score of every bucket, the settings and costs of methods, and the networks."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pandas as pd

from snellen.charts import numbers
from snellen.charts.html_page import TemplateValues
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, text_of, traits
from snellen.textbox.exam import summaries
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.scoring import SCORES, ScoreReading
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.report.dot_plots import score
from snellen.textbox.report.figures import PaperFigures
from snellen.textbox.scenes.objects import bucket_descriptions


def score_tables(results: ExamResults, figures: PaperFigures) -> list[TemplateValues]:
    """Per setting and score: the mean of every bucket for every method, the oracle first."""
    means = {name: summaries.bucket_means(figures.frame, name) for name in SCORES}
    settings: list[TemplateValues] = []
    for setting, scenes in results.scenes.items():
        descriptions = bucket_descriptions(scenes.spec.rule.objects)
        tables = []
        for name in SCORES:
            rows = means[name][means[name]["setting"] == setting]
            wide = rows.pivot(index="method", columns="bucket", values="mean")
            wide = wide.loc[:, wide.notna().any()]
            wide.insert(0, "average", wide.mean(axis=1))
            cells = dict(zip(wide.index, wide.to_numpy().tolist(), strict=True))
            tables.append({
                "score": name,
                "columns": [{"bucket": int(bucket), "contents": descriptions[int(bucket)]} for bucket in wide.columns[1:]],
                "rows": [
                    {
                        "name": figures.names[method],
                        "oracle": method == ORACLE,
                        "control": method in results.controls,
                        "cells": [score(value) for value in cells[method]],
                    }
                    for method in figures.order
                    if method in cells
                ],
            })  # fmt: skip
        settings.append({"setting": setting, "tables": tables})
    return settings


def oracle_failures(figures: PaperFigures) -> list[TemplateValues]:
    """Buckets in which even the perfect map cannot pass in the published reading."""
    means = summaries.bucket_means(figures.frame[figures.frame["method"] == ORACLE], "pafl")
    low = means[means["mean"] <= BAR]
    return [
        {"setting": name, "buckets": [int(bucket) for bucket in rows["bucket"]], "highest": f"{rows['mean'].max():.3f}"}
        for name, rows in low.groupby("setting", sort=False)
    ]


def csv_uri(figures: Mapping[ScoreReading, PaperFigures]) -> str:
    """The mean of every score in every bucket, in both readings, as a CSV file inside the page."""
    keys = ["setting", "bucket", "method"]
    parts = []
    for reading, reading_figures in figures.items():
        frame = reading_figures.frame
        means = [summaries.bucket_means(frame, name).set_index(keys)["mean"].rename(name) for name in SCORES]
        parts.append(pd.concat(means, axis=1).reset_index().assign(reading=reading))
    text = pd.concat(parts).to_csv(index=False, float_format="%.4g", lineterminator="\n")
    return "data:text/csv;base64," + base64.b64encode(text.encode()).decode()


def method_facts(results: ExamResults, names: dict[str, str]) -> list[TemplateValues]:
    """What each method is, with which settings it ran, and where it was published."""
    methods = []
    for method in results.record["methods"]:
        label = method["label"]
        if label not in results.methods:
            continue
        plain = plain_name(label)
        facts = traits(METHODS[plain]) if plain in METHODS else None
        methods.append({
            "name": names[label],
            "label": label,
            "control": method["control"],
            "changed": method["changed"],
            "preset": _preset(label, facts.presets) if facts else "",
            "summary": facts.summary if facts else "",
            "cite": CITATIONS.get(facts.cite, facts.cite) if facts else "",
        })  # fmt: skip
    return methods


def _preset(label: str, presets: Mapping[str, Mapping[str, Any] | str]) -> str:
    """The settings of the preset that a label names."""
    preset = presets.get(label.partition("(")[0].partition("@")[2], {})
    return "" if isinstance(preset, str) else ", ".join(f"{key}={text_of(value)}" for key, value in preset.items())


def left_out(results: ExamResults, names: dict[str, str]) -> list[TemplateValues]:
    """Methods that could not run, each with its reason and its settings."""
    return [
        {
            "method": names.get(method, method),
            "reason": reason,
            "settings": settings,
            "everywhere": len(settings) == len(results.settings),
        }
        for (method, reason), settings in results.reasons.items()
    ]


def costs(results: ExamResults, names: dict[str, str]) -> list[TemplateValues]:
    """Seconds and passes of each method over all settings, the slowest first."""
    table = results.costs.groupby("method", sort=False)[["images", "forward", "backward", "seconds"]].sum()
    longest = float(table["seconds"].max()) if len(table) else 0.0
    rows = []
    for method, row in table.sort_values("seconds", ascending=False).iterrows():
        if method not in names:
            continue
        images, seconds = max(1, int(row["images"])), float(row["seconds"])
        rows.append({
            "name": names[str(method)],
            "control": method in results.controls,
            "seconds": numbers.duration(seconds),
            "each": numbers.duration(seconds / images),
            "forward": numbers.amount(float(row["forward"]) / images),
            "backward": numbers.amount(float(row["backward"]) / images),
            "share": 100 * seconds / longest if longest else 0.0,
        })  # fmt: skip
    return rows


def network_facts(name: str, network: TrainedNetwork) -> TemplateValues:
    """A network: its accuracy in every bucket, and how it was trained."""
    training, accuracy = network.record["training"], network.accuracy
    descriptions = bucket_descriptions(network.spec.rule.objects)
    return {
        "name": name,
        "architecture": network.spec.architecture,
        "background": network.spec.background,
        "robust": network.spec.robust,
        "mean": f"{sum(accuracy.values()) / len(accuracy):.1%}",
        "lowest": f"{min(accuracy.values()):.1%}",
        "images": numbers.short(training["images"]) if training["images"] else "not recorded",
        "time": numbers.duration(training["seconds"]) if training["seconds"] else "not recorded",
        "seed": training["seed_used"],
        "buckets": [
            {"bucket": bucket, "contents": descriptions[bucket], "accuracy": f"{value:.1%}"}
            for bucket, value in accuracy.items()
        ],
        "training": ", ".join(f"{key} {text_of(value)}" for key, value in training.items()),
    }
