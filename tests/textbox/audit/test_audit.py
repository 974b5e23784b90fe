"""The audit: verdicts by the rule on tables made by hand, and a small one for real."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from rich.console import Console

from snellen.errors import SnellenError
from snellen.plugins.registry import MethodTraits
from snellen.runs.progress import Silent
from snellen.textbox.audit.audit import GROUPS, Audit, audit, audit_table, verdict_of
from snellen.textbox.audit.audit_scores import AuditedMetric, AuditScores, choose_metrics
from snellen.textbox.exam.oracle import Oracle
from snellen.textbox.report.audit_page import page
from snellen.textbox.report.audit_text import AuditTable, markdown, summary

IMAGES = 80
SETTINGS = ("one", "two", "three", "four", "five", "six", "seven", "eight")


def trial(**scores: tuple[np.ndarray, bool]) -> AuditScores:
    """Twelve maps of each of eighty images of eight networks, four of them right; scores, and which way each is better."""
    truth = made_truth()
    metrics = tuple(
        AuditedMetric(label=name, attribute="minimality", higher_is_better=up, bounded=False, role="on trial")
        for name, (_, up) in scores.items()
    )
    return AuditScores(
        setting=SETTINGS * (IMAGES // len(SETTINGS)),
        simple=(True, False) * (IMAGES // 2),
        bucket=np.arange(IMAGES) // len(SETTINGS) % 2,
        samples=tuple(f"{place}" for place in range(IMAGES)),
        methods=("best", "good", "fair", "poor", "bad", "worst", "random", "edge", "fake-cam", "centre", "decoy", "oracle"),
        kinds=("method",) * 6 + ("control",) * 5 + ("oracle",),
        truth=truth,
        metrics=metrics,
        scores={name: values for name, (values, _) in scores.items()},
    )


def made_truth() -> np.ndarray:
    jitter = np.random.default_rng(1).random((IMAGES, 12)) * 0.05
    jitter[:, -1] = 0
    return np.array([0.9, 0.8, 0.6, 0.4, 0.35, 0.3, 0.05, 0.25, 0.1, 0.2, 0.15, 1.0]) - jitter


@pytest.fixture(scope="module")
def table():
    truth = made_truth()
    noise = np.random.default_rng(2).random(truth.shape)
    refusing = truth.copy()
    refusing[:, -2:] = math.nan
    twin = truth.copy()
    twin[:, -2] = twin[:, -1]  # the decoy has the oracle's values
    spread = truth.copy()
    spread[:, -2:] = 0.5  # so it has here, but better methods have more
    return audit_table(
        trial(
            truth=(truth, True),
            turned=(-truth, True),
            down=(-truth, False),
            guess=(noise, True),
            still=(np.zeros_like(truth), True),
            refusing=(refusing, True),
            spread=(spread, True),
            twin=(twin, True),
            nothing=(np.full_like(truth, math.nan), True),
        )
    ).set_index(["metric", "group"])


def test_the_truth_is_seen_and_its_opposite_misleads(table) -> None:
    for group in ("all", "simple", "complex", "one", "two"):
        for measure in ("tau", "auc", "clear", "own", "decoy"):
            assert table.loc[("truth", group), measure] == 1
            assert table.loc[("truth", group), f"{measure}_low"] == 1
            assert table.loc[("down", group), measure] == 1  # lower is better, and is asked so
            assert table.loc[("turned", group), measure] == (-1 if measure == "tau" else 0)
        for name, word in (("truth", "sees"), ("down", "sees"), ("turned", "misleads"), ("refusing", "sees")):
            assert table.loc[(name, group), "verdict"] == (word if group in GROUPS else "")


def test_who_cannot_tell_the_oracle_from_its_decoy_goes_by_shape(table) -> None:
    row = table.loc[("spread", "complex")]
    assert row["auc_low"] > 0.5
    assert (row["decoy"], row["decoy_high"], row["verdict"], row["own_verdict"]) == (0.5, 0.5, "shape", "shape")
    twin = table.loc[("twin", "complex")]
    assert (twin["decoy"], twin["fooled"], twin["fooled_by"]) == (0.5, 1, "decoy")
    assert math.isnan(table.loc[("refusing", "complex"), "decoy"])


def test_guessing_is_not_seeing(table) -> None:
    for group in ("simple", "complex"):
        row = table.loc[("guess", group)]
        assert row["auc_low"] <= 0.5 <= row["auc_high"]
        assert row["p"] > 0.05
        assert row["tau"] == pytest.approx(0, abs=0.15)
        still = table.loc[("still", group)]
        assert (still["tau"], still["auc"], still["auc_low"], still["auc_high"]) == (0, 0.5, 0.5, 0.5)
        assert still["verdict"] == "blind"


def test_where_oracle_and_controls_are_ranked(table) -> None:
    assert table.loc[("truth", "simple"), ["oracle_top", "oracle_above", "fooled", "fooled_by"]].tolist() == [1, 1, 0, ""]
    assert table.loc[("turned", "simple"), ["oracle_top", "oracle_above", "fooled", "fooled_by"]].tolist() == [
        0, 0, 1, "random",
    ]  # fmt: skip
    # Where all is equal, nothing is above the oracle, but it is above nothing; and controls share the first place.
    assert table.loc[("still", "simple"), ["oracle_top", "oracle_above", "fooled"]].tolist() == [1, 0, 1]
    assert table.loc[("refusing", "simple"), "oracle_n"] == 0
    assert math.isnan(table.loc[("refusing", "simple"), "oracle_top"])
    assert table.loc[("refusing", "simple"), ["auc", "undefined", "scores"]].tolist() == [1, 80, 480]


def test_believed_is_who_sees_among_methods_alone_too() -> None:
    truth = made_truth()
    helped = truth.copy()
    helped[:, :6] = 0.5  # methods are all the same to it, controls are below and the oracle is above
    made = trial(truth=(truth, True), helped=(helped, True), turned=(-truth, True))
    result = Audit(scores=made, table=audit_table(made), left_out={}, seconds=0.0)
    assert result.cell("helped", "simple").verdict == "sees"
    assert result.cell("helped", "simple").own_verdict == "blind"
    assert result.believed("simple") == (["truth"], ["helped"])
    assert [metric.label for metric in result.order] == ["truth", "helped", "turned"]


def test_undefined_scores_are_counted_and_give_no_verdict(table) -> None:
    row = table.loc[("nothing", "complex")]
    assert math.isnan(row["auc"])
    assert (row["auc_n"], row["undefined"], row["verdict"]) == (0, 480, "too few")


@pytest.mark.parametrize(
    ("auc", "low", "high", "images", "networks", "decoy", "verdict"),
    [
        (0.8, 0.51, 0.9, 40, 5, (0.6, 1.0), "sees"),
        (0.8, 0.51, 0.9, 40, 5, (math.nan, math.nan), "sees"),
        (0.8, 0.50, 0.9, 40, 5, (0.6, 1.0), "unclear"),
        (0.58, 0.51, 0.65, 40, 5, (0.6, 1.0), "faint"),
        (0.8, 0.7, 0.9, 40, 5, (0.5, 0.5), "shape"),
        (0.8, 0.7, 0.9, 40, 5, (0.4, 0.8), "unclear"),  # not shown to go by place, nor to go by shape
        (0.8, 0.7, 0.9, 29, 5, (0.6, 1.0), "too few"),
        (0.8, 0.7, 0.9, 40, 1, (0.6, 1.0), "too few"),
        (0.5, 0.45, 0.55, 40, 5, (0.3, 0.7), "blind"),
        (0.5, 0.35, 0.55, 40, 5, (0.3, 0.7), "unclear"),
        (0.3, 0.2, 0.49, 40, 5, (0.3, 0.7), "misleads"),
        (0.3, 0.2, 0.50, 40, 5, (0.3, 0.7), "unclear"),
    ],
)
def test_the_rule(auc, low, high, images, networks, decoy, verdict) -> None:
    assert verdict_of(auc, low, high, images=images, networks=networks, decoy=decoy) == verdict


def test_what_holds_in_some_networks_only_is_not_to_be_believed() -> None:
    """Right in three of four complex networks and wrong in the fourth: over images alone that looked certain."""
    truth = made_truth()
    some = truth.copy()
    some[np.arange(IMAGES) % len(SETTINGS) == 7] *= -1
    made = trial(truth=(truth, True), some=(some, True))
    result = Audit(scores=made, table=audit_table(made), left_out={}, seconds=0.0)
    cell = result.cell("some", "complex")
    mean, low, high, _ = cell.estimates["auc"]
    assert mean == pytest.approx(0.75)
    rows = result.table.set_index(["metric", "group"])
    assert mean - 1.96 * rows.loc[("some", "complex"), "auc_error_images"] > 0.6
    assert low < 0.5 < high
    assert (cell.verdict, cell.own_verdict) == ("unclear", "unclear")
    assert result.believed("complex")[0] == ["truth"]
    assert result.cell("some", "simple").verdict == "sees"
    assert "To be believed in complex settings, for they see among methods alone too: truth." in summary(result)


def test_metrics_that_cannot_be_tried_are_named() -> None:
    metrics, left_out = choose_metrics(None)
    labels = [metric.traits.name for metric in metrics]
    assert "deletion" in labels
    assert "relevance-mass" in labels
    assert "plausibility" not in labels  # looks at the truth, and is no reference
    assert set(left_out) == {
        "checkpoint-sensitivity", "data-randomisation", "model-contrast", "repeatability", "reproducibility", "roar",
    }  # fmt: skip
    with pytest.raises(SnellenError, match="'roar' cannot be audited"):
        choose_metrics(["deletion", "roar"])
    with pytest.raises(SnellenError, match="an audit is of metrics that do not use the truth, but all that are named do"):
        choose_metrics(["relevance-mass"])


def test_impossible_wishes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match="at least one image per setting, not 0"):
        audit(["simple-fr"], out=tmp_path, images=0, observer=Silent())
    with pytest.raises(SnellenError, match="there is no setting 'simple-rf'"):
        audit(["simple-rf"], out=tmp_path, observer=Silent())
    with pytest.raises(SnellenError, match="named twice"):
        audit(["simple-fr", "simple-fr"], out=tmp_path, observer=Silent())


@pytest.fixture(scope="module")
def real(tmp_path_factory, monkeypatch_module) -> Audit:
    out = tmp_path_factory.mktemp("audit")
    arguments = (["simple-fr"], ["gradient", "input-x-gradient"], ["deletion", "sparsity", "random-logit"])
    first = audit(*arguments, out=out, images=6, observer=Silent())
    assert audit(*arguments, out=out, images=6, observer=Silent()).table.equals(first.table)
    return first


@pytest.fixture(scope="module")
def monkeypatch_module():
    """One process: for six images, starting others would take longer than the work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("snellen.textbox.audit.audit_scores.workers_for_short_passes", lambda: 0)
        yield


@dataclass(frozen=True)
class Breaking(Oracle):
    """A method that falls over."""

    traits: ClassVar[MethodTraits] = replace(Oracle.traits, name="breaking")

    def __call__(self, classifier, inputs, targets, *, rng):
        raise ValueError("it fell over")


def test_a_method_that_breaks_has_no_maps_and_the_others_are_tried_all_the_same(monkeypatch_module, tmp_path: Path) -> None:
    result = audit(["simple-fr"], ["gradient", Breaking()], ["sparsity"], out=tmp_path, images=1, observer=Silent())
    field = result.method_table().set_index("method")["simple"]
    assert math.isnan(field["breaking"])
    assert field["gradient"] > 0
    assert result.cell("sparsity", "simple").undefined == len(result.scores)


def test_a_small_audit_for_real(real: Audit) -> None:
    assert real.scores.methods == ("gradient", "input-x-gradient", "random", "edge", "fake-cam", "centre", "decoy", "oracle")
    assert real.scores.kinds == ("method",) * 2 + ("control",) * 5 + ("oracle",)
    assert len(real.scores) == 6
    assert (real.scores.truth[:, -1] == 1).all()
    for name in ("pafl", "relevance-mass"):  # the same number by two ways, of which one is a metric of the run
        cell = real.cell(name, "simple")
        assert (cell.estimates["tau"].mean, cell.estimates["auc"].mean, cell.oracle_top, cell.fooled) == (1, 1, 1, 0)
    assert (
        real.table.set_index(["metric", "group"]).loc[("random-logit", "simple"), "oracle_n"] == 0
    )  # the truth is not about other classes
    assert real.cell("deletion", "simple").estimates["auc"].mean > 0.6
    assert real.cell("deletion", "simple").estimates["decoy"].mean == 1
    assert real.cell("sparsity", "simple").estimates["decoy"].mean == 0.5  # the same values elsewhere
    assert real.cell("deletion", "simple").verdict == "too few"


def test_pages_of_a_small_audit(real: Audit, tmp_path: Path) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(AuditTable(real))
    on_step = console.export_text()
    for text in (page(real), markdown(real), on_step):
        for metric in ("deletion", "sparsity", "random-logit", "relevance-mass", "a coin"):
            assert metric in text
    assert "complex" not in markdown(real).partition("## The maps")[2].partition("## Settings")[0]
    written = real.write_csv(tmp_path / "deep" / "audit.csv").read_text().splitlines()
    assert len(written) == 1 + 2 * len(real.scores.metrics)


def test_what_cards_need_to_know_of_metrics_is_about_complex_settings_alone(real: Audit, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "truth.csv"
    assert real.write_truth(path).read_text() == "metric,auc,low,high,n,verdict\n"
    table = real.table[real.table["group"] == "simple"].assign(group="complex")
    lines = replace(real, table=table).write_truth(path).read_text().splitlines()
    mean, low, high, _ = real.cell("deletion", "simple").estimates["auc"]
    assert {line.partition(",")[0] for line in lines[1:]} == {"deletion", "sparsity", "random-logit"}
    assert f"deletion,{mean:.4f},{low:.4f},{high:.4f},6,too few" in lines
