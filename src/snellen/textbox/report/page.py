"""The report of a run on TextBox: one HTML page that opens offline, and all scores as a table beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from snellen.charts import numbers, pictures
from snellen.charts.html_page import render_page, write_page
from snellen.charts.verdict_marks import MARKS
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
from snellen.textbox.report.claims import claims
from snellen.textbox.report.dot_plots import score
from snellen.textbox.report.figures import Kind, PaperFigures
from snellen.textbox.report.questions import Claim

IDENTIFIED = ("integrated-gradients", "gradient", "lrp-z", "deeplift-rescale", "grad-cam", "occlusion", "edge")
"""Methods whose maps are shown side by side in all settings, beside the oracle and the best: those of the paper first."""

READING_WORDS = {
    "paper": "as the paper says: the values of the map as they are",
    "published-code": "as the published code does: maps are drawn as pictures, blurred over 7×7 pixels, and then scored",
}
SCORE_WORDS = {
    "pafl": "share of the map on what the model uses; higher is better",
    "safl": "share of the map on what it does not consult; lower is better",
    "piou": "how well the brightest pixels coincide with what the model uses; higher is better",
    "siou": "how well they coincide with what it does not consult; lower is better",
    "pmafl": "share per pixel on what the model uses; higher is better",
    "smafl": "share per pixel on what it does not consult; lower is better",
}


def write_report(field: ExamResults, path: str | Path) -> Path:
    """Writes the page of a field, and beside it, under the same name, the scores of every map as CSV."""
    target = Path(path)
    written = write_page(page(field, target.with_suffix(".csv").name), target)
    frames = [field.frame(reading).assign(reading=reading) for reading in READINGS]
    pd.concat(frames).to_csv(target.with_suffix(".csv"), index=False, float_format="%.6g")
    return written


def page(field: ExamResults, table: str) -> str:
    """The whole page as text. `table` is the file with all scores that lies beside it."""
    styles = ["charts/page.css", "textbox/report/textbox.css"]
    return render_page("textbox/report/textbox.html", styles, {**_facts(field), "file": table})


def _facts(field: ExamResults) -> dict[str, Any]:
    frames = {reading: field.frame(reading) for reading in READINGS}
    rules = {name: one.spec.rule.text for name, one in field.networks.items()}
    remade = {reading: PaperFigures(frame, field.methods, field.controls, rules) for reading, frame in frames.items()}
    ours, names = remade["paper"], remade["paper"].names
    beside = remade["published-code"].beside_published()
    summary, *others = ours.all()
    run = next(iter(field.runs.values())).record
    return {
        "record": run,
        "names": names,
        "bar": BAR,
        "settings": [_setting(name, one) for name, one in field.networks.items()],
        "counts": _counts(field, frames["paper"]),
        "example": examples.right_and_wrong(field, frames["paper"], names),
        "verdict": _verdict(field, ours),
        "empty": _empty(field, frames["paper"], names),
        "claims": [_claim(one) for one in claims(frames["paper"], frames["published-code"])],
        "refused": field.refused,
        "proofs": _proofs(field),
        "asked": {"least": LEAST, "moved": MOVED, "still": STILL},
        "figures": [summary, *([beside] if beside else []), *others],
        "families": FAMILIES,
        "matrices": _matrices(ours),
        "grids": _grids(field, ours),
        "worst": examples.worst_samples(field, frames["paper"], names),
        "bars": {side: pictures.data_uri(pictures.scale_bar(side), longest=256, quality=92) for side in (False, True)},
        "ceilings": appendix.ceilings(remade["published-code"]),
        "tables": [
            {"reading": reading, "words": READING_WORDS[reading], "settings": appendix.tables(field, one)}
            for reading, one in remade.items()
        ],
        "score_words": SCORE_WORDS,
        "csv": appendix.as_csv(remade),
        "methods": appendix.methods(field, names),
        "left_out": appendix.left_out(field, names),
        "costs": appendix.costs(field, names),
        "models": [appendix.model(name, one) for name, one in field.networks.items()],
        "fingerprints": {name: facts["fingerprint"] for name, facts in field.record["settings"].items()},
        "passed_over": {name: one.passed_over for name, one in field.exams.items()},
        "citation": CITATIONS["kim2022"],
    }


# What was done, and what came out ----------------------------------------------------------------------------------------


def _setting(name: str, network: TrainedNetwork) -> dict[str, Any]:
    rule = network.spec.rule
    return {"name": name, "rule": rule.text, "simple": rule.simple, "buckets": len(rule.defined)}


def _counts(field: ExamResults, frame: pd.DataFrame) -> dict[str, Any]:
    scenes = sum(len(one) for one in field.exams.values())
    own = [one for one in field.methods if one not in (ORACLE, *field.controls)]
    done = [run.record.totals for run in field.runs.values()]  # work that methods share is counted once here
    return {
        "methods": numbers.count(len(own), "method"),
        "controls": list(field.controls),
        "settings": numbers.count(len(field.settings), "setting"),
        "models": numbers.count(len(field.settings), "small network"),
        "scenes": numbers.count(scenes, "scene"),
        "maps": f"{frame['method'].isin(own).sum():,}".replace(",", "\u202f"),
        "per_bucket": field.per_bucket,
        "seconds": numbers.duration(sum(one.seconds for one in done if one)),
    }


def _verdict(field: ExamResults, remade: PaperFigures) -> list[dict[str, Any]]:
    """Per kind of setting: how many methods pass on average, which is best and worst, and how that compares."""
    own = [one for one in remade.order if one not in (ORACLE, *field.controls)]
    found = []
    for kind in remade.kinds:
        means = {one: value for one in own if (value := remade.average("pafl", kind, one)) == value}
        if not means:
            continue
        controls = {one: value for one in field.controls if (value := remade.average("pafl", kind, one)) == value}
        best, worst = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
        beaten = max(controls.values(), default=0.0)
        found.append({
            "kind": kind,
            "settings": [name for name, one in field.networks.items() if one.spec.simple == (kind == "simple")],
            "passing": sum(value > BAR for value in means.values()),
            "always": sum(remade.minimum("pafl", kind, one) > BAR for one in means),
            "of": len(means),
            "best": {"name": remade.names[best], "average": score(means[best]), "worst": _least(remade, kind, best)},
            "last": {"name": remade.names[worst], "average": score(means[worst])},
            "control": max(controls, key=controls.__getitem__, default=None),
            "beaten": score(beaten),
            "ignorant": sum(value <= beaten for value in means.values()),
            "oracle": score(remade.average("pafl", kind, ORACLE)),
        })  # fmt: skip
    return found


def _least(remade: PaperFigures, kind: Kind, method: str) -> str:
    return score(remade.minimum("pafl", kind, method))


def _empty(field: ExamResults, frame: pd.DataFrame, names: dict[str, str]) -> list[dict[str, Any]]:
    """Methods with maps that have no score although there is something to look at, and how many."""
    scenes = ["setting", "sample"]
    wanted = frame.loc[(frame["method"] == ORACLE) & frame["pafl"].notna(), scenes]
    missing = frame.merge(wanted, on=scenes).groupby("method", sort=False)["pafl"].agg(lambda one: int(one.isna().sum()))
    return [
        {"name": names[one], "maps": int(missing[one]), "of": len(wanted)}
        for one in field.methods
        if one in missing.index and missing[one]
    ]


def _claim(claim: Claim) -> dict[str, Any]:
    word = {True: "pass", False: "fail", None: "not counted"}[claim.holds]
    return {
        "kind": word.replace(" ", "-"),
        "mark": MARKS[word],
        "verdict": claim.verdict,
        "section": claim.section,
        "sentence": claim.sentence,
        "numbers": claim.numbers,
        "reason": claim.reason,
        "among": claim.among,
    }


def _proofs(field: ExamResults) -> list[dict[str, Any]]:
    """The proof of every setting in one line, and the pairs behind it."""
    found = []
    for name, rows in field.verification.groupby("setting", sort=False):
        changes, stays = (rows[rows["expected"] == one] for one in ("changes", "stays"))
        found.append({
            "setting": name,
            "rule": field.networks[str(name)].spec.rule.text,
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
    return found


# Figures that are tables, and pictures ------------------------------------------------------------------------------------


def _matrices(remade: PaperFigures) -> dict[str, Any]:
    """Fig. 7: method by setting, the share of buckets in which it succeeds, and whether it fails in most."""
    wins, losses = (
        {(row["setting"], row["method"]): row for row in one(remade.frame).to_dict("records")}
        for one in (summaries.success, summaries.failure)
    )
    settings = list(dict.fromkeys(remade.frame["setting"]))
    groups = [
        {
            "title": title,
            "rows": [
                {
                    "name": remade.names[row.method],
                    "cells": [_fate(wins.get((one, row.method)), losses.get((one, row.method))) for one in settings],
                }
                for row in rows
            ],
        }
        for title, rows in remade.summary().groups
    ]
    return {"settings": settings, "groups": groups}


def _fate(win: dict[Any, Any] | None, loss: dict[Any, Any] | None) -> dict[str, Any] | None:
    """What became of a method in a setting; none where it has no bucket that counts."""
    if win is None or loss is None or not win["buckets"]:
        return None
    return {
        "won": round(win["share"] * win["buckets"]),
        "lost": round(loss["share"] * loss["buckets"]),
        "of": win["buckets"],
        "shade": round(4 * win["share"]),
        "fails": bool(loss["fails"]),
    }


def _grids(field: ExamResults, remade: PaperFigures) -> list[dict[str, Any]]:
    """Fig. 9 and 25: the same inputs in every setting, for a few methods."""
    samples = examples.same_inputs(field)
    if not samples or len(field.settings) < 2:
        return []
    bare = {plain_name(one): one for one in reversed(field.methods)}
    best = next((one for one in remade.order if one not in (ORACLE, *field.controls)), ORACLE)
    chosen = dict.fromkeys([ORACLE, *(bare[one] for one in IDENTIFIED if one in bare), best])
    return [
        {
            "name": remade.names[one],
            "oracle": one == ORACLE,
            "best": one == best,
            "rows": examples.identifiability(field, one, samples, remade.names[one]),
        }
        for one in chosen
    ]
