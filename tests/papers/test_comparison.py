"""Published tables are shipped whole, claims follow from them, and every protocol runs on a tiny classifier."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from tests.report import recorded
from tests.runs.subject import write_images

from snellen.errors import SnellenError
from snellen.papers import TABLES, TableComparison, reproduce
from snellen.papers.claims import MissingError
from snellen.papers.comparison import _measures
from snellen.papers.comparison_table import ComparisonTable
from snellen.papers.table_values import TableValues
from snellen.plugins.registry import METHODS, METRICS, label
from snellen.runs import Run
from snellen.runs.progress import Silent

COSE = label(METRICS.parse(TABLES["cose2023-table1"].columns["consistency"].metric))
LIGHT = {
    "zhang2024-table1": "Fake-CAM,gradient,integrated-gradients,guided-backprop,grad-cam,RISE,LIME,IBA",
    "zhang2024-table2": "Fake-CAM,Gradient,Grad-CAM,RISE",
    "zhang2024-table3": "Fake-CAM,Gradient,Grad-CAM,LIME",
    "zhang2024-table4": "Fake-CAM,Gradient,Grad-CAM",
    "cose2023-table1": "Grad-CAM,Grad-CAM++,integrated-gradients",
}
ROWS = {
    "zhang2024-table1": 60,
    "zhang2024-table2": 150,
    "zhang2024-table3": 50,
    "zhang2024-table4": 200,
    "cose2023-table1": 147,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_published_table_is_whole_and_named_as_the_protocol_names_it(name):
    protocol = TABLES[name]
    published = protocol.published()
    assert len(published.cells) == ROWS[name]
    for block in protocol.blocks:
        for method in protocol.methods:
            for metric in list(protocol.columns)[:1] if name.startswith("cose") else protocol.columns:
                assert np.isfinite(published.get(block.published, method, metric))


@pytest.mark.parametrize("name", TABLES)
def test_methods_and_metrics_of_a_protocol_exist_and_differ(name):
    protocol = TABLES[name]
    assert len({repr(METHODS.parse(notation)) for notation in protocol.methods.values()}) == len(protocol.methods)
    for column in protocol.columns.values():
        METRICS.parse(column.metric)


def test_claims_of_the_papers_hold_in_their_own_tables_with_one_exception():
    states = {
        (name, claim.sentence): claim.decide(protocol.published()).verdict
        for name, protocol in TABLES.items()
        for claim in protocol.claims
    }
    wrong = [sentence for (_, sentence), state in states.items() if state != "holds"]
    assert wrong == ["Fake-CAM, a constant map, has MS = AS = 0, as the definition demands"]


def test_a_missing_number_is_reported_and_not_guessed():
    values = TableValues({("", "RISE", "insertion"): float("nan")})
    with pytest.raises(MissingError, match="RISE has no insertion"):
        values.get("", "RISE", "insertion")
    assert values.methods("insertion") == {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("reproduce")
    write_images(place / "images", count=3, side=32)
    names = sorted(path.name for path in (place / "images").iterdir())
    pd.DataFrame({"file": names, "label": [0, 1, 2]}).to_csv(place / "labels.csv", index=False)
    return place


def measured(name: str, folder: Path) -> TableComparison:
    settings = {
        "model": "tests.runs.subject:load", "size": 32, "images": str(folder / "images"),
        "labels": str(folder / "labels.csv"), "out": str(folder / name), "threads": 1,
    }  # fmt: skip
    return reproduce(name, settings, methods=LIGHT[name].split(","), observer=Silent())


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_protocol_runs_on_a_tiny_classifier(name, folder):
    comparison = measured(name, folder)
    table = comparison.frame()
    ran = table[table["method"].isin(comparison.methods)]
    assert len(comparison.methods) == len(LIGHT[name].split(","))
    assert ran["measured"].notna().mean() > 0.5
    assert table[~table["method"].isin(comparison.methods)]["measured"].isna().all()
    shares = ran[ran["metric"].isin(["average_increase", "100-average_drop", "insertion", "100-deletion"])]["measured"]
    assert shares.dropna().between(0, 100).all()
    assert len(comparison.claims()) == len(TABLES[name].claims)
    out = io.StringIO()
    Console(file=out, width=90).print(ComparisonTable(comparison))
    assert max(map(len, out.getvalue().splitlines())) <= 90
    assert "Known to differ" in out.getvalue()
    assert "too few for a verdict" in out.getvalue()
    assert comparison.write_csv(folder / "table.csv").stat().st_size > 500


def test_a_constant_map_has_sensitivity_zero_where_the_paper_printed_0_96(folder):
    comparison = measured("zhang2024-table3", folder)
    assert comparison.published.get("", "Fake-CAM", "max_sensitivity") == 0.96
    assert comparison.measured.get("", "Fake-CAM", "max_sensitivity") == 0
    first = comparison.claims()[0]
    assert (first.published.verdict, first.measured.verdict) == ("does not hold", "holds")


def test_units_are_those_of_the_paper(folder):
    comparison = measured("zhang2024-table1", folder)
    mean = Run(folder / "zhang2024-table1").table().loc["grad-cam", "average-drop"]
    assert comparison.measured.get("", "Grad-CAM", "100-average_drop") == pytest.approx(100 - 100 * mean)


def test_a_claim_that_depends_on_one_image_is_not_decided():
    protocol = TABLES["zhang2024-table3"]
    scores = {"Fake-CAM": [0.0, 0.0, 0.0], "LIME": [0.5, 0.5, 0.5], "RISE": [0.1, 0.1, 1.4]}
    measures = {
        ("", name, "sparseness"): lambda kept, own=own: float(np.array(own)[kept].mean()) for name, own in scores.items()
    }
    comparison = TableComparison(
        table=protocol, published=protocol.published(), measures=measures, images=3, classifier="net", source="here",
        methods=tuple(scores), skipped={},
    )  # fmt: skip
    sparsest = next(result for result in comparison.claims() if result.claim.sentence == "LIME is the sparsest").measured
    assert (sparsest.verdict, sparsest.numbers) == ("cannot be decided", "it depends on single images")


def overall(**cose: float) -> TableValues:
    return TableValues({("all, Overall", name.replace("_", "-"), "cose"): value for name, value in cose.items()})


def test_claims_about_ranks_need_at_least_three_methods_and_the_right_order():
    first, *_, following = TABLES["cose2023-table1"].claims
    alone = first.decide(overall(Grad_CAM=60.0))
    assert (alone.verdict, alone.numbers) == ("cannot be decided", "fewer than three methods were run")
    assert following.decide(overall(BlurIG=60.0)).verdict == "cannot be decided"
    assert following.decide(overall(LIME=60.0, BlurIG=59.0, IG=50.0, Grad_CAM=10.0)).verdict == "does not hold"
    assert following.decide(overall(Grad_CAM=61.0, LIME=60.0, BlurIG=59.0, IG=50.0)).verdict == "does not hold"
    assert following.decide(overall(Grad_CAM=61.0, LIME=58.0, BlurIG=59.0, IG=50.0)).verdict == "holds"


def test_cose_is_undefined_where_one_of_its_parts_is():
    columns = TABLES["cose2023-table1"].columns
    points = ("consistency/geometric/flip-lr", "sensitivity/model/random", "models", "geometric-mean")
    for name in ("cose", "geometric"):
        pooled = columns[name].pooling
        assert pooled is not None
        assert np.isnan(pooled(np.array([[0.9, np.nan, 1.0, np.nan]]), points))
        assert pooled(np.array([[-0.9, 0.5, 1.0, 0.0]]), points) == 0


class Unfinished(Run):
    """A run in which the second of three images was not scored."""

    def __init__(self) -> None:  # no folder
        metrics = (recorded.metric(COSE, points=("consistency/geometric/flip-lr",)),)
        self.record = recorded.Recorded(metrics=metrics).record

    def samples(self) -> pd.DataFrame:
        return pd.DataFrame({"sample": ["a", "b", "c"]})

    def scores(self) -> pd.DataFrame:
        facts = {"method": "grad-cam", "metric": COSE}
        return pd.DataFrame([{"sample": name, **facts, "value": 0.5} for name in "ca"])

    def curves(self, metric: str) -> dict[str, np.ndarray]:
        return {"grad-cam": np.array([[0.2], [0.8]])}


def test_images_that_were_not_run_have_no_part_in_pooled_numbers():
    protocol = TABLES["cose2023-table1"]
    measures = _measures(protocol, protocol.blocks[0], ["Grad-CAM"], [Unfinished()])
    consistency = measures["all, Overall", "Grad-CAM", "consistency"]
    assert consistency(np.array([True, True, True])) == pytest.approx(50)
    assert consistency(np.array([True, True, False])) == pytest.approx(20)


@pytest.mark.parametrize(
    ("name", "methods", "sentence"),
    [
        ("zhang2024-table9", None, "unknown table 'zhang2024-table9'; did you mean 'zhang2024-table"),
        ("zhang2024-table1", ["gradcam"], "zhang2024-table1 has no method 'gradcam'; did you mean 'grad-cam'?"),
    ],
)
def test_a_wrong_request_is_one_sentence(name, methods, sentence):
    with pytest.raises(SnellenError) as caught:
        reproduce(name, {}, methods=methods, observer=Silent())
    assert sentence in str(caught.value)
