"""The report of an exam: one HTML page that opens offline, and all scores as a table beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from snellen.charts import numbers, pictures
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.verdict_marks import MARKS
from snellen.papers.claims import ClaimResult
from snellen.plugins.citations import CITATIONS
from snellen.textbox.exam import summaries
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.families import FAMILIES, plain_name
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.scoring import READINGS
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.networks.trained_network import TrainedNetwork
from snellen.textbox.networks.verification import LEAST, MOVED, STILL
from snellen.textbox.report import appendix, examples
from snellen.textbox.report.claims import decide_claims
from snellen.textbox.report.dot_plots import score
from snellen.textbox.report.figures import PaperFigures, SettingKind

IDENTIFIED = ("integrated-gradients", "gradient", "lrp-z", "deeplift-rescale", "grad-cam", "occlusion", "edge")
"""Methods whose maps are shown side by side in all settings, with those of the oracle and of the best method."""

READING_WORDS = {
    "paper": "as the paper says: the values of the map as they are",
    "published-code": "as the published code does: maps are drawn as pictures, blurred over 7×7 pixels, and then scored",
}
SCORE_WORDS = {
    "pafl": "share of the map on what the model uses; higher is better",
    "safl": "share of the map on what it does not use; lower is better",
    "piou": "how well the brightest pixels coincide with what the model uses; higher is better",
    "siou": "how well they coincide with what it does not use; lower is better",
    "pmafl": "share per pixel on what the model uses; higher is better",
    "smafl": "share per pixel on what it does not use; lower is better",
}


def write_report(results: ExamResults, path: str | Path) -> Path:
    """Writes the report, and beside it, under the same name, the scores of every map as CSV."""
    target = Path(path)
    written = write_page(page(results, target.with_suffix(".csv").name), target)
    frames = [results.frame(reading).assign(reading=reading) for reading in READINGS]
    pd.concat(frames).to_csv(target.with_suffix(".csv"), index=False, float_format="%.6g")
    return written


def page(results: ExamResults, table: str) -> str:
    """The whole page as text. `table` is the file with all scores that lies beside it."""
    styles = ["charts/page.css", "textbox/report/textbox.css"]
    return render_page("textbox/report/textbox.html", styles, {**_facts(results), "file": table})


def paper_figures(results: ExamResults, frame: pd.DataFrame) -> PaperFigures:
    """The figures of an exam, from its scores in one reading."""
    rules = {setting: network.spec.rule.text for setting, network in results.networks.items()}
    return PaperFigures(frame=frame, methods=results.methods, controls=results.controls, rules=rules)


def _facts(results: ExamResults) -> TemplateValues:
    frames = {reading: results.frame(reading) for reading in READINGS}
    figures = {reading: paper_figures(results, frame) for reading, frame in frames.items()}
    frame, ours = frames["paper"], figures["paper"]
    names = ours.names
    beside = figures["published-code"].beside_published()
    summary, *others = ours.all()
    return {
        "record": next(iter(results.runs.values())).record,
        "names": names,
        "bar": BAR,
        "settings": [_setting(name, network) for name, network in results.networks.items()],
        "counts": _counts(results, frame),
        "example": examples.right_and_wrong(results, frame, names),
        "verdict": _verdict(results, ours),
        "empty": _undefined_maps(results, frame, names),
        "claims": [_claim(claim) for claim in decide_claims(frame, frames["published-code"])],
        "refused": results.refused,
        "verifications": _verifications(results),
        "required": {"least": LEAST, "moved": MOVED, "still": STILL},
        "figures": [summary, *([beside] if beside else []), *others],
        "families": FAMILIES,
        "matrices": _matrices(ours),
        "grids": _grids(results, ours),
        "worst": examples.worst_samples(results, frame, names),
        "bars": {signed: pictures.data_uri(pictures.scale_bar(signed), longest=256, quality=92) for signed in (False, True)},
        "oracle_failures": appendix.oracle_failures(figures["published-code"]),
        "tables": [
            {
                "reading": reading,
                "words": READING_WORDS[reading],
                "settings": appendix.score_tables(results, reading_figures),
            }
            for reading, reading_figures in figures.items()
        ],
        "score_words": SCORE_WORDS,
        "csv": appendix.csv_uri(figures),
        "methods": appendix.method_facts(results, names),
        "left_out": appendix.left_out(results, names),
        "costs": appendix.costs(results, names),
        "models": [appendix.network_facts(name, network) for name, network in results.networks.items()],
        "fingerprints": {name: facts["fingerprint"] for name, facts in results.record["settings"].items()},
        "passed_over": {name: scenes.passed_over for name, scenes in results.scenes.items()},
        "citation": CITATIONS["kim2022"],
    }


# Summary and verdicts ----------------------------------------------------------------------------------------------------


def _setting(name: str, network: TrainedNetwork) -> TemplateValues:
    rule = network.spec.rule
    return {"name": name, "rule": rule.text, "simple": rule.simple, "buckets": len(rule.defined)}


def _own_methods(results: ExamResults, labels: Iterable[str]) -> list[str]:
    """Without the oracle and the controls."""
    return [label for label in labels if label not in (ORACLE, *results.controls)]


def _counts(results: ExamResults, frame: pd.DataFrame) -> TemplateValues:
    own = _own_methods(results, results.methods)
    totals = [run.record.totals for run in results.runs.values()]  # work that methods share is counted once here
    return {
        "methods": numbers.count(len(own), "method"),
        "controls": list(results.controls),
        "settings": numbers.count(len(results.settings), "setting"),
        "models": numbers.count(len(results.settings), "small network"),
        "scenes": numbers.count(sum(map(len, results.scenes.values())), "scene"),
        "maps": f"{frame['method'].isin(own).sum():,}".replace(",", "\u202f"),
        "per_bucket": results.per_bucket,
        "seconds": numbers.duration(sum(total.seconds for total in totals if total)),
    }


def _verdict(results: ExamResults, figures: PaperFigures) -> list[TemplateValues]:
    """Per kind of setting: how many methods pass on average, which is best and worst, and how controls compare."""
    verdicts: list[TemplateValues] = []
    for kind in figures.kinds:
        means = _defined_averages(figures, kind, _own_methods(results, figures.order))
        if not means:
            continue
        controls = _defined_averages(figures, kind, results.controls)
        best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        best_control = max(controls.values(), default=0.0)
        verdicts.append({
            "kind": kind,
            "settings": [name for name, network in results.networks.items() if network.spec.simple == (kind == "simple")],
            "passing": sum(mean > BAR for mean in means.values()),
            "always": sum(figures.minimum("pafl", kind, method) > BAR for method in means),
            "of": len(means),
            "best": {
                "name": figures.names[best],
                "average": score(means[best]),
                "worst": score(figures.minimum("pafl", kind, best)),
            },
            "last": {"name": figures.names[worst], "average": score(means[worst])},
            "control": max(controls, key=controls.__getitem__, default=None),
            "best_control": score(best_control),
            "not_better": sum(mean <= best_control for mean in means.values()),
            "oracle": score(figures.average("pafl", kind, ORACLE)),
        })  # fmt: skip
    return verdicts


def _defined_averages(figures: PaperFigures, kind: SettingKind, methods: Iterable[str]) -> dict[str, float]:
    averages = {method: figures.average("pafl", kind, method) for method in methods}
    return {method: average for method, average in averages.items() if not math.isnan(average)}


def _undefined_maps(results: ExamResults, frame: pd.DataFrame, names: dict[str, str]) -> list[TemplateValues]:
    """Methods with maps that have no score although there is something to look at, and how many."""
    scenes = ["setting", "sample"]
    defined = frame.loc[(frame["method"] == ORACLE) & frame["pafl"].notna(), scenes]
    groups = frame.merge(defined, on=scenes).groupby("method", sort=False)["pafl"]
    missing = groups.agg(lambda values: int(values.isna().sum()))
    return [
        {"name": names[method], "maps": int(missing[method]), "of": len(defined)}
        for method in results.methods
        if method in missing.index and missing[method]
    ]


def _claim(claim: ClaimResult) -> TemplateValues:
    word = {True: "pass", False: "fail", None: "not counted"}[claim.holds]
    return {**asdict(claim), "verdict": claim.verdict, "kind": word.replace(" ", "-"), "mark": MARKS[word]}


def _verifications(results: ExamResults) -> list[TemplateValues]:
    """The verification of every setting in one line, and the changes behind it."""
    verifications: list[TemplateValues] = []
    for name, rows in results.verification.groupby("setting", sort=False):
        changes, stays = (rows[rows["expected"] == expected] for expected in ("changes", "stays"))
        verifications.append({
            "setting": name,
            "rule": results.networks[str(name)].spec.rule.text,
            "changes": len(changes),
            "stays": len(stays),
            "pairs": f"{int(rows['pairs'].sum()):,}".replace(",", "\u202f"),
            "share": f"{rows['share'].mean():.1%}",
            "lowest": f"{rows['share'].min():.1%}",
            "moved": score(changes["moved"].mean()),
            "least": score(changes["moved"].min()),
            "still": score(stays["moved"].mean()),
            "most": score(stays["moved"].max()),
            "rows": [
                {**row, "share": f"{row['share']:.1%}", "moved": score(row["moved"])} for row in rows.to_dict("records")
            ],
        })  # fmt: skip
    return verifications


# Figures that are tables, and pictures ------------------------------------------------------------------------------------


def _matrices(figures: PaperFigures) -> TemplateValues:
    """Fig. 7: method by setting, the share of buckets in which it succeeds, and whether it fails in most."""
    successes, failures = (
        {(row["setting"], row["method"]): row for row in summary(figures.frame).to_dict("records")}
        for summary in (summaries.success, summaries.failure)
    )
    settings = list(dict.fromkeys(figures.frame["setting"]))
    groups = [
        {
            "title": title,
            "rows": [
                {
                    "name": figures.names[row.method],
                    "cells": [
                        _outcome(successes.get((setting, row.method)), failures.get((setting, row.method)))
                        for setting in settings
                    ],
                }
                for row in rows
            ],
        }
        for title, rows in figures.summary().groups
    ]
    return {"settings": settings, "groups": groups}


def _outcome(success: dict[Any, Any] | None, failure: dict[Any, Any] | None) -> TemplateValues | None:
    """In how many buckets of a setting a method succeeds and fails; None where it has no bucket that counts."""
    if success is None or failure is None or not success["buckets"]:
        return None
    return {
        "won": round(success["share"] * success["buckets"]),
        "lost": round(failure["share"] * failure["buckets"]),
        "of": success["buckets"],
        "shade": round(4 * success["share"]),
        "fails": bool(failure["fails"]),
    }


def _grids(results: ExamResults, figures: PaperFigures) -> list[TemplateValues]:
    """Fig. 9 and 25: the same inputs in every setting, for a few methods."""
    samples = examples.same_inputs(results)
    if not samples or len(results.settings) < 2:
        return []
    labels = {plain_name(label): label for label in reversed(results.methods)}
    best = next(iter(_own_methods(results, figures.order)), ORACLE)
    chosen = dict.fromkeys([ORACLE, *(labels[name] for name in IDENTIFIED if name in labels), best])
    return [
        {
            "name": figures.names[label],
            "oracle": label == ORACLE,
            "best": label == best,
            "rows": examples.map_grid(results, label, samples, figures.names[label]),
        }
        for label in chosen
    ]
