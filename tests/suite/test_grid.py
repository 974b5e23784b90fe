"""The card's table: every test has a row in the card's order, and every cell a verdict or a reason."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from tests.report.recorded import Recorded, method, metric

from snellen import runs, zoo
from snellen.cards.tables import results_markdown, results_table
from snellen.errors import SnellenError
from snellen.plugins.registry import METRICS, Test
from snellen.report.positive_controls import SURPRISE
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.suite import Grid, run_suite, subject
from snellen.suite.card_tests import STUDY_TESTS, TESTS, metrics_by_test
from snellen.suite.page import page
from snellen.suite.printed_grid import PrintedGrid

IMAGES = 40


def recorded() -> Recorded:
    run = Recorded(
        methods=[method("grad-cam"), method("rise(masks=50)"), method("occlusion"), method("random", control=True)],
        metrics=[
            metric("deletion", higher=False, test="Deletion"),
            metric("completeness", higher=False, test="Completeness", tolerance=0.01),
            metric("average-gain"),
        ],
        ids=[f"{at}.png" for at in range(IMAGES)],
    )
    noise = np.random.default_rng(0).normal(0, 0.01, IMAGES)
    run.values = {
        ("grad-cam", "deletion"): 0.13 + noise,
        ("rise(masks=50)", "deletion"): 0.9 + noise,
        ("occlusion", "deletion"): 0.2 + noise,
        ("random", "deletion"): 0.5 - noise,
        ("grad-cam", "completeness"): np.zeros(IMAGES),
        ("occlusion", "completeness"): np.full(IMAGES, 0.5),
        ("random", "completeness"): np.zeros(IMAGES),
    }
    run.refused = {("rise(masks=50)", "completeness"): "rise has no baseline"}
    return run


@pytest.fixture(scope="module")
def grid() -> Grid:
    unmet = {metrics_by_test()["Insertion"]: "needs a recipe"}
    return Grid.of(recorded(), unmet=unmet, left_out={"guided-backprop": "it has no ReLU"})


def test_the_page_says_which_maps_were_made_elsewhere(tmp_path):
    """As the report of a run does."""
    np.savez(tmp_path / "maps.npz", **{name: np.random.rand(32, 32) for name in zoo.digit_samples().ids})
    maps = {"theirs": str(tmp_path / "maps.npz")}
    values = {"methods": ["random"], "metrics": ["sparseness"], "maps": maps, "out": str(tmp_path / "run"), "workers": 0}
    grid = run_suite(subject(values, full=False), full=False, observer=Silent())
    assert "The maps of theirs were made elsewhere" in page(grid)


def test_methods_and_metrics_of_a_file_elsewhere_are_those_of_that_file(tmp_path, monkeypatch):
    """Not those of a file of the same name in the current folder; and the run can be resumed."""
    code = "def f(classifier, inputs, targets): return inputs.{}(dim=1)\ndef m(case): return case.maps.{}(dim=(1, 2))\n"
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "mine.py").write_text(code.format("amax", "amax"))
    (tmp_path / "there" / "mine.py").write_text(code.format("mean", "mean"))
    monkeypatch.chdir(tmp_path / "here")
    values = {
        "methods": ["../there/mine.py:f"],
        "metrics": ["../there/mine.py:m"],
        "out": str(tmp_path / "run"),
        "workers": 0,
    }
    grid = run_suite(subject(values, full=False), full=False, observer=Silent())
    run = runs.Run(tmp_path / "run")
    assert run.methods[0] == "mine.py:f"
    assert {"random", "edge"} <= set(run.methods)
    assert run.record.request["methods"][0] == "../there/mine.py:f"
    pixels = zoo.digit_samples()[0].image
    inputs = zoo.load_classifier("digits").to_inputs(pixels[None])
    np.testing.assert_array_equal(run.maps("mine.py:f")[0], inputs.mean(dim=1)[0])
    assert grid.run.table().loc["mine.py:f", "mine.py:m"] == pytest.approx(run.maps("mine.py:f").mean(), rel=1e-4)


def printed(grid: Grid, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(PrintedGrid(grid))
    return out.getvalue()


def test_the_tests_of_the_suite_are_those_of_the_card():
    assert [test for tests in TESTS.values() for test in tests] == list(get_args(Test))
    assert [len(tests) for tests in TESTS.values()] == [15, 2, 8, 3, 5]
    for test, name in metrics_by_test().items():
        attribute = next(key for key, tests in TESTS.items() if test in tests)
        assert METRICS[name].traits.attribute == attribute, name


def test_no_two_metrics_measure_the_same_test():
    named = [METRICS[name].traits.test for name in METRICS if METRICS[name].traits.test]
    assert len(named) == len(set(named))


def test_every_test_has_its_row_in_order_with_verdicts_or_a_reason(grid):
    assert [row.test for row in grid.tests] == list(get_args(Test))
    assert [row.metric for row in grid.others] == ["average-gain"]
    rows = {row.test: row for row in grid.tests}
    assert [cell.verdict for cell in rows["Deletion"].cells] == ["pass", "fail", "pass", "", ""]
    assert rows["Deletion"].cells[3].reason == "not run: it has no ReLU"
    assert [cell.verdict for cell in rows["Completeness"].cells] == ["pass", "", "fail", "", ""]
    assert rows["Completeness"].cells[1].reason == "not run: rise has no baseline"
    assert rows["Insertion"].reason == "not run: needs a recipe"
    assert rows["Visual Sharpening"].reason == "not run: needs people"
    assert all(row.cells or row.reason for row in grid.rows)


def test_empty_names_the_tests_without_a_verdict(grid):
    assert ("Deletion", "grad-cam") not in grid.empty
    assert ("Completeness", "rise(masks=50)") in grid.empty
    assert ("Visual Sharpening", "grad-cam") in grid.empty


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_shows_glyph_and_mean_within_the_width(grid, width):
    text = printed(grid, width)
    assert max(map(len, text.splitlines())) <= width
    assert "●0.13" in text
    assert "■0.90" in text
    assert "not run: needs people" in " ".join(text.split())
    assert text.count("Visual Sharpening") == 1
    assert "Completeness on rise(masks=50): not run: rise has no baseline" in " ".join(text.split())
    assert "with settings other than the defaults (columns, then rows): rise(masks=50)" in " ".join(text.split())


def test_the_page_says_verdict_number_and_reason(grid):
    text = page(grid)
    assert text.count('<tr><th scope="row">') == 34
    for part in ("●</i>pass", "■</i>fail", "0.13", "not run: rise has no baseline", "it has no ReLU", "needs people"):
        assert part in text
    assert "http" not in text.split("</style>")[1]


def test_the_csv_has_one_line_per_test_and_method(grid, tmp_path):
    table = pd.read_csv(grid.write_csv(tmp_path / "suite.csv"))
    assert len(table) == 3 * 5 + 31
    assert set(table["test"].dropna()) == set(get_args(Test))
    assert table["reason"].notna().all()


# The run itself ----------------------------------------------------------------------------------------------------------

METHODS = "gradient,grad-cam,random,fake-cam"


@pytest.mark.slow
def test_a_quick_suite_on_the_default_subject_fills_the_tests_it_promises(tmp_path):
    settings = subject({"methods": METHODS.split(","), "out": str(tmp_path), "workers": 0}, full=False)
    assert (settings.model, settings.images) == ("digits", "zoo:digits")
    grid = run_suite(settings, full=False, observer=Silent())
    for row in grid.tests:
        needs = METRICS[row.metric].traits.needs if row.metric in METRICS else set()
        if row.test not in metrics_by_test():
            assert row.reason  # a metric is still missing
        elif row.test in STUDY_TESTS or needs & {"recipe", "checkpoints"}:
            assert row.reason.startswith("not run: needs")
        else:
            assert not row.reason, row
    verdicts = {cell.verdict for row in grid.tests for cell in row.cells if not cell.control}
    assert {"pass", "fail"} <= verdicts
    deletion = next(row for row in grid.tests if row.test == "Deletion")
    assert [cell.verdict for cell in deletion.cells] == ["pass", "pass", "", ""]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "controls"), [([], ("random", "edge", "fake-cam", "centre")), (["blurred"], ("blurred",))]
)
def test_methods_named_without_a_control_get_the_four_controls(tmp_path, named, controls):
    values = {"methods": ["gradient", *named], "metrics": ["sparsity"], "out": str(tmp_path), "workers": 0}
    assert run_suite(subject(values, full=False), full=False, observer=Silent()).controls == controls


def test_a_run_without_controls_says_beforehand_that_nothing_will_be_judged(tmp_path, monkeypatch):
    for methods, advice in ((["gradient"], ["add random,edge,fake-cam,centre for verdicts"]), (["gradient", "random"], [])):
        values = {"model": "digits", "images": "zoo:digits", "methods": methods, "metrics": ["sparsity"], "workers": 0}
        notes: list[str] = []
        seen = Silent()
        monkeypatch.setattr(seen, "note", notes.append, raising=False)
        Settings.of(values | {"out": str(tmp_path / str(len(methods)))}).run(seen)
        assert [note.partition("; ")[2] for note in notes if note.startswith("no control")] == advice


def test_the_model_and_the_images_are_loaded_once(tmp_path, monkeypatch):
    loaded = []
    for name in ("load_classifier", "digit_samples"):
        real = getattr(runs.settings, name)
        monkeypatch.setattr(
            runs.settings, name, lambda *arguments, _of=real, **more: loaded.append(_of) or _of(*arguments, **more)
        )
    values = {"methods": ["gradient", "random"], "metrics": ["sparsity"], "out": str(tmp_path), "workers": 0}
    run_suite(subject(values, full=False), full=False, observer=Silent())
    assert len(loaded) == 2


def test_another_model_has_its_own_images_and_folder():
    settings = subject({"model": "timm:resnet18"}, full=True)
    assert (settings.images, settings.out) == ("zoo:photographs", "runs/suite-timm-resnet18")
    assert subject({"model": "nets/mine.pt"}, full=False).out == "runs/suite-mine.pt"


def test_a_method_that_cannot_explain_the_model_keeps_its_column(tmp_path):
    sys.path.insert(0, str(Path(__file__).parent.parent / "runs"))
    from tests.runs.subject import write_images

    write_images(tmp_path / "images", count=2, side=16)
    values = {"model": "subject:logits_of", "size": 16, "images": str(tmp_path / "images"), "out": str(tmp_path / "out")}
    grid = run_suite(subject(values | {"metrics": ["deletion(steps=4)"]}, full=False), full=False, observer=Silent())
    assert "black-box" in grid.left_out["gradient"]
    deletion = next(row for row in grid.tests if row.test == "Deletion")
    assert {cell.method for cell in deletion.cells if cell.n == 2} >= {"lime(samples=60)", "random"}
    assert next(cell for cell in deletion.cells if cell.method == "gradient").reason.startswith("not run: gradient needs")
    with pytest.raises(SnellenError, match="gradient needs gradients"):
        run_suite(subject(values | {"methods": ["gradient"]}, full=False), full=False, observer=Silent())


def test_an_inconclusive_cell_says_what_would_settle_it():
    run = recorded()
    rng = np.random.default_rng(1)
    run.values[("occlusion", "deletion")] = run.values[("random", "deletion")] - 0.003 + rng.normal(0, 0.012, IMAGES)
    grid = Grid.of(run, unmet={}, left_out={})
    (cell,) = [cell for row in grid.rows for cell in row.cells if cell.verdict == "inconclusive"]
    assert cell.advice.endswith("would settle it")
    text = page(grid)
    assert cell.advice in text
    assert "alike within a margin of 0.2 standard deviations of the scores" in text
    assert cell.advice in grid.table()["advice"].tolist()


def test_a_row_says_with_which_settings_its_test_was_run() -> None:
    """Infidelity is scaled in every suite, for maps of different units; whoever reads the row must see that it is."""
    run = Recorded(
        methods=[method("grad-cam"), method("random", control=True)],
        metrics=[metric("infidelity(scaled=true)", higher=False, test="Infidelity")],
        ids=[f"{at}.png" for at in range(IMAGES)],
    )
    run.values = {(name, "infidelity(scaled=true)"): np.ones(IMAGES) for name in ("grad-cam", "random")}
    grid = Grid.of(run, unmet={}, left_out={})
    titles = {row.test: row.title for row in grid.tests}
    assert titles["Infidelity"] == "Infidelity (scaled=true)"
    assert titles["Insertion"] == "Insertion"
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(PrintedGrid(grid))
    for text in (page(grid), console.export_text(), results_markdown(grid)):
        assert "Infidelity (scaled=true)" in text


# Positive controls --------------------------------------------------------------------------------------------------------


def test_the_masks_stand_in_columns_of_their_own(tmp_path):
    run = recorded()
    run.positive = [method("truth")]
    run.values |= {("truth", "deletion"): np.full(IMAGES, 0.6), ("truth", "completeness"): np.full(IMAGES, np.nan)}
    run.refused |= {("truth", "average-gain"): "the maps are made of the masks"}
    shown = Grid.of(run, unmet={}, left_out={})
    plain = Grid.of(recorded(), unmet={}, left_out={})
    assert [repr(row.cells) for row in shown.rows] == [repr(row.cells) for row in plain.rows]
    assert shown.positive == ("truth",)
    assert (shown.methods, shown.controls, shown.empty) == (plain.methods, plain.controls, plain.empty)
    rows = {row.metric: row for row in shown.rows if row.positive}
    (cell,) = rows["deletion"].positive
    assert (cell.verdict, cell.control, cell.mean) == ("", True, pytest.approx(0.6))
    assert rows["deletion"].positive_note.startswith("truth scores worse than random (by −0.09")
    assert (
        rows["completeness"].positive[0].reason == "undefined on every image: the truth is empty, or the truth mask is empty"
    )
    assert rows["average-gain"].positive[0].reason == "not run: the maps are made of the masks"
    text = page(shown)
    assert 'class="is-positive">truth<small>positive control' in text
    assert "truth scores worse than random" in text
    assert "Positive controls are the masks themselves as maps" in text
    assert (
        text.count('<td class="is-positive" colspan="1"><small class="reason">not run: the maps are made of the masks') == 1
    )
    for width in (60, 200):
        lines = printed(shown, width)
        assert max(map(len, lines.splitlines())) <= width
        assert "truth scores worse than random" in " ".join(lines.split())
        assert SURPRISE in " ".join(lines.split())
    table = pd.read_csv(shown.write_csv(tmp_path / "suite.csv"))
    assert table[table["method"] == "truth"]["control"].all()
    assert len(table) == len(plain.table()) + 3
    assert "truth" not in results_markdown(shown)
    assert "truth" not in set(results_table(shown)["method"])


def test_a_suite_brings_the_masks_along_where_every_image_has_one(tmp_path):
    values = {"methods": ["gradient"], "metrics": ["sparsity", "pointing-game"], "workers": 0}
    grid = run_suite(subject(values | {"out": str(tmp_path / "a")}, full=False), full=False, observer=Silent())
    assert grid.positive == ("truth", "blurred-truth")
    assert grid.controls == ("random", "edge", "fake-cam", "centre")
    assert grid.methods == ("gradient",)
    pointing = next(row for row in grid.rows if row.metric == "pointing-game")
    assert [cell.mean for cell in pointing.positive] == [1.0, pytest.approx(1.0, abs=0.1)]
    assert "truth" in page(grid)
    assert "truth" in set(grid.table()["method"])
    named = {"methods": ["gradient", "random", "blurred-truth(sigma=0.1)"], "out": str(tmp_path / "b")}
    grid = run_suite(subject(values | named, full=False), full=False, observer=Silent())
    assert grid.positive == ("blurred-truth(sigma=0.1)",)


@pytest.mark.slow
def test_a_suite_on_images_without_masks_has_none(tmp_path):
    sys.path.insert(0, str(Path(__file__).parent.parent / "runs"))
    from tests.runs.subject import write_images

    write_images(tmp_path / "images", count=2, side=32)
    values = {"model": "digits", "images": str(tmp_path / "images"), "out": str(tmp_path / "out"), "metrics": ["sparsity"]}
    grid = run_suite(subject(values | {"methods": ["gradient"]}, full=False), full=False, observer=Silent())
    assert grid.positive == ()


@pytest.mark.slow
def test_of_several_labels_every_case_must_have_a_mask(tmp_path):
    """With `predicted`, a label may be explained that the image has no region for; then no positive control is added."""
    values = {"model": "digits-many", "methods": ["gradient"], "metrics": ["sparsity"], "workers": 0}
    for target in ("every-label", "predicted"):
        settings = subject(values | {"target": target, "out": str(tmp_path / target)}, full=False)
        assert run_suite(settings, full=False, observer=Silent()).positive == ("truth", "blurred-truth")
