"""Tables A1 and A2: every method has its row, every test its cell, and every empty one a reason."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from tests.report.recorded import Recorded, method, metric

from snellen.cards.card_set import CardSet
from snellen.cards.schema import METHODOLOGY, Finding
from snellen.cards.tables import grid_of, methodology_markdown, results_markdown, results_table, write_tables
from snellen.plugins.registry import Test
from snellen.runs.sample_table import SampleTable
from snellen.suite.card_tests import TESTS

IMAGES = 40


@pytest.fixture(scope="module")
def card_set() -> CardSet:
    noise = np.random.default_rng(0).normal(0, 0.01, IMAGES)
    run = Recorded(
        methods=[method("grad-cam"), method("rise(masks=50)"), method("random", control=True)],
        metrics=[
            metric("deletion", higher=False, test="Deletion"),
            metric("completeness", higher=False, test="Completeness", tolerance=0.01),
            metric("average-gain"),
        ],
        ids=[f"{at}.png" for at in range(IMAGES)],
        values={
            ("grad-cam", "deletion"): 0.13 + noise,
            ("rise(masks=50)", "deletion"): 0.9 + noise,
            ("random", "deletion"): 0.5 - noise,
            ("grad-cam", "completeness"): np.zeros(IMAGES),
            ("random", "completeness"): np.zeros(IMAGES),
        },
        refused={("rise(masks=50)", "completeness"): "rise has no | baseline"},
    )
    findings = {
        "grad-cam": {
            "determinism": Finding(
                attribute="determinism", word="fixed", sentence="5 seeds gave one map.", share=1.0, numbers={"seeds": 5}
            )
        }
    }
    return CardSet.of(run, findings)


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells by the first one of their row; a bar that is escaped ends no cell."""
    lines = [line[2:-2].replace("\\|", "¦").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert len({len(line) for line in lines}) == 1
    return {line[0]: line[1:] for line in lines}


def test_a1_has_what_was_measured_and_the_prose_in_short(card_set):
    rows = rows_of(methodology_markdown(card_set.methods))
    assert list(rows)[2:] == ["`grad-cam`", "`rise(masks=50)`"]
    assert rows["`grad-cam`"][0] == "**fixed**: 5 seeds gave one map. No chance is involved."
    assert rows["`rise(masks=50)`"][3] == "One forward pass per mask."
    assert all(cell for row in rows.values() for cell in row)


def test_a2_has_all_33_tests_and_a_reason_for_every_cell_without_a_verdict(card_set):
    text = results_markdown(grid_of(card_set))
    table = rows_of(text.split("## Metrics beside")[0])
    tests = [test for those in TESTS.values() for test in those]
    assert [name.rstrip(" ↑↓") for name in table][2:] == tests
    assert table["Deletion ↓"] == ["● 0.13", "■ 0.90", "0.50"]
    assert table["Completeness ↓"][0] == "● 0"
    notes = dict(line.split(". ", 1) for line in text.splitlines() if line[:1].isdigit())

    def reason(cell: str) -> str:
        return notes[cell[cell.index("(") + 1 : -1]]

    assert reason(table["Completeness ↓"][1]) == "not run: rise has no \\| baseline"
    assert reason(table["ROAR"][0]) == "not run: needs a recipe: give --recipe and --training"
    assert reason(table["Mean IoU"][0]) == "not run: needs the truth of every picture: give --masks or --boxes"
    assert reason(table["Insertion"][0]) == "not run: not asked for: add insertion to --metrics"
    assert reason(table["Visual Sharpening"][0]) == "not run: needs people"
    assert all(cell for row in table.values() for cell in row)
    assert "`occlusion`" in text.split("Methods that this run does not have")[1]
    assert rows_of(text.split("## In the literature")[1])["Completeness"][0] == "● pass"


def test_a_run_that_has_the_truth_asks_for_none(card_set):
    record = card_set.run.record
    rows = SampleTable.of_rows(row.changed(truth="some") for row in record.samples.rows)
    record = record.changed(samples=record.samples.with_rows(rows))
    run = Recorded(
        methods=card_set.run.methods, metrics=card_set.run.metrics, ids=card_set.run.ids, values=card_set.run.values
    )
    type(run).record, kept = property(lambda _: record), type(run).record
    try:
        rows = {row.test: row for row in grid_of(CardSet(run=run, cards=card_set.cards, trust=card_set.trust)).tests}
    finally:
        type(run).record = kept
    assert rows["Mean IoU"].reason == "not run: not asked for: add mean-iou to --metrics"


def test_the_files_hold_the_same(card_set, tmp_path):
    paths = write_tables(card_set, tmp_path / "new")
    assert [path.name for path in paths] == [
        "table-a1-methodology.md",
        "table-a1-methodology.csv",
        "table-a2-tests.md",
        "table-a2-tests.csv",
    ]
    first, second = pd.read_csv(paths[1]), pd.read_csv(paths[3])
    assert len(first) == len(card_set.methods) * len(METHODOLOGY)
    assert first.loc[0, ["word", "share", "seeds"]].tolist() == ["fixed", 1.0, 5]
    assert set(second["test"].dropna()) == set(Test.__args__)
    assert (second["source"] != "run").sum() == 86
    assert second["reason"].notna().all()
    assert len(results_table(grid_of(card_set))) == len(second)
    assert list(csv.reader(io.StringIO(paths[3].read_text())))[1][1] == "Completeness"
