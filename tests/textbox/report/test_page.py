"""The page of a field: all methods, the oracle first, the frame's numbers, words for every picture, nothing from outside."""

from __future__ import annotations

import base64
import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from snellen.charts import numbers
from snellen.plugins import registry
from snellen.textbox.exam import scoring
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.exam_scenes import draw_exam_scenes
from snellen.textbox.exam.families import FAMILIES, family, plain_name
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.run_exam import run_exam
from snellen.textbox.exam.scoring import SCORES, oracle_maps
from snellen.textbox.exam.scoring import score as scores_of
from snellen.textbox.networks.trained_network import find_network
from snellen.textbox.report import appendix, examples
from snellen.textbox.report import page as pages
from snellen.textbox.report.dot_plots import Dot, DotPlotCell, DotPlotPanel, cell_chart, score
from snellen.textbox.report.figures import PaperFigures, published_scores

pytestmark = pytest.mark.slow

SETTINGS = ("simple-fr", "complex-cr2")
METHODS = ("gradient", "input-x-gradient", "grad-cam", "lrp-epsilon@kim2022")


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> ExamResults:
    return run_exam(SETTINGS, methods=METHODS, out=tmp_path_factory.mktemp("field"), per_bucket=1, workers=0)


@pytest.fixture(scope="module")
def written(field: ExamResults) -> Path:
    return pages.write_report(field, field.folder / "report.html")


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def remade(field: ExamResults) -> PaperFigures:
    return remade_of(field)


def remade_of(field: ExamResults, frame: pd.DataFrame | None = None) -> PaperFigures:
    rules = {name: network.spec.rule.text for name, network in field.networks.items()}
    return PaperFigures(
        frame=field.frame() if frame is None else frame, methods=field.methods, controls=field.controls, rules=rules
    )


class Tags(HTMLParser):
    """All tags with their attributes, and what stands in the rows of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[str]]] = {}
        self._region = ""
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.tags.append((tag, held))
        if held.get("role") == "region":
            self._region = str(held["aria-label"])
        if tag == "tr":
            self.rows.setdefault(self._region, []).append([])
        if tag in ("td", "th") and self._region:
            self.rows[self._region][-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[self._region][-1][-1] += data.strip()


def test_every_figure_holds_every_method_and_the_oracle_stands_first(
    field: ExamResults, remade: PaperFigures, text: str
) -> None:
    figures = remade.all()
    assert [figure.name for figure in figures] == ["summary", "focus-simple", "focus-complex", "crowded", "worst"]
    for figure in figures:
        rows = [row.method for _, some in figure.groups for row in some]
        assert rows[0] == ORACLE, figure.name
        assert sorted(rows) == sorted(field.methods), figure.name
        assert figure.table.rows[0][0] == "oracle"
        assert figure.groups[-1][0] == "Controls"
        assert {row.method for row in figure.groups[-1][1]} == set(field.controls)
    for label in field.methods:
        assert f">{remade.names[label]}<" in text.replace("<wbr>", "")


def test_the_numbers_are_those_of_the_frame(field: ExamResults, remade: PaperFigures, text: str) -> None:
    frame = field.frame()
    buckets = frame.groupby(["simple", "setting", "bucket", "method"])["pafl"].mean()
    summary = remade.summary().table
    row = dict(zip(summary.columns, next(cells for cells in summary.rows if cells[0] == "gradient"), strict=True))
    for simple, kind in ((True, "simple"), (False, "complex")):
        mine = buckets.loc[simple].xs("gradient", level="method")
        assert row[f"PAFL {kind}, average"] == f"{mine.mean():.2f}"
        assert row[f"PAFL {kind}, worst bucket"] == f"{mine.min():.2f}"
        description = f"gradient, PAFL, {kind}: worst bucket {mine.min():.2f}, average {mine.mean():.2f}"
        assert f'aria-label="{description}"' in text
    tables = Tags(text).rows
    for reading in ("paper", "published-code"):
        means = field.frame(reading).groupby(["setting", "method", "bucket"])[list(SCORES)].mean()
        for setting in SETTINGS:
            for of in SCORES:
                head, first, *rest = tables[f"{of.upper()} in {setting}, reading {reading}"]
                assert first[0] == "oracle"
                names = {name: label for label, name in remade.names.items()}
                defined = means.loc[setting, of].dropna().index.get_level_values("bucket").unique().sort_values()
                for cells in (first, *rest):
                    scores = means.loc[(setting, names[cells[0]]), of].reindex(defined)
                    assert cells[2:] == [score(value) for value in scores], (reading, setting, of, cells)
                    assert cells[1] == score(scores.mean())
                assert len(rest) + 1 == len(field.methods)
                assert len(head) == len(first)


def test_both_downloads_hold_what_the_page_shows(field: ExamResults, written: Path, text: str) -> None:
    every = pd.read_csv(written.with_suffix(".csv"))
    assert len(every) == 2 * len(field.frame())
    link = re.search(r'href="data:text/csv;base64,([^"]+)"', text)
    assert link is not None
    means = pd.read_csv(io.BytesIO(base64.b64decode(link[1]))).set_index(["reading", "setting", "bucket", "method"])
    expected = every.groupby(["reading", "setting", "bucket", "method"])[list(SCORES)].mean()
    np.testing.assert_allclose(means.loc[expected.index, list(SCORES)], expected, rtol=2e-3)


def test_nothing_comes_from_outside_and_every_picture_has_words(text: str) -> None:
    tags = Tags(text).tags
    assert "script" not in {tag for tag, _ in tags}
    for tag, held in tags:
        for name in ("src", "href", "xlink:href"):
            link = held.get(name)
            assert link is None or link == "report.csv" or link.startswith(("data:", "#")), (tag, link)
        if tag == "img":
            assert held["alt"], held
        if held.get("role") == "img":
            assert held["aria-label"], held
    anchors = {held["id"] for _, held in tags if "id" in held}
    assert {str(held["href"])[1:] for tag, held in tags if tag == "a" and str(held["href"]).startswith("#")} <= anchors
    outer = re.findall(r'<svg class="(?:dots|example)[^>]*>', text)
    assert outer
    assert all("aria-label" in attributes for attributes in outer)
    assert "url(" not in re.sub(r"data:[^\"]+", "", text)
    assert "@import" not in text


def test_published_numbers_stand_beside_ours_in_their_reading_only(field: ExamResults) -> None:
    theirs = published_scores()
    assert theirs["gradient", "pafl", "simple", "average"].value == 0.23
    assert str(theirs["deepshap", "pafl", "complex", "worst"]) == "≤ 0.09"
    assert len({key[0] for key in theirs}) == 10
    coded = remade_of(field, field.frame("published-code"))
    figure = coded.beside_published()
    assert figure is not None
    assert {row[0] for row in figure.table.rows} == {"gradient", "grad-cam", "lrp-epsilon"}
    row = next(cells for cells in figure.table.rows if cells[0] == "gradient")
    assert row[1:5] == (
        score(coded.average("pafl", "simple", "gradient")), "0.23",
        score(coded.minimum("pafl", "simple", "gradient")), "0.15",
    )  # fmt: skip


def test_buckets_that_fail_by_construction_are_named() -> None:
    sat = draw_exam_scenes(find_network("complex-cr1"), per_bucket=1)
    facts = {
        "setting": "complex-cr1", "simple": False, "bucket": sat.buckets.numpy(), "visible": sat.visible.numpy(),
        "sample": sat.ids, "method": ORACLE,
    }  # fmt: skip
    coded, plain = (
        PaperFigures(
            frame=pd.DataFrame(facts | scores_of(sat, oracle_maps(sat), ORACLE, reading=reading)),
            methods=(ORACLE,),
            controls=(),
            rules={},
        )
        for reading in ("published-code", "paper")
    )
    (failure,) = appendix.oracle_failures(coded)
    assert failure["buckets"] == [4, 5, 6]
    assert failure["highest"] == "0.327"
    assert not appendix.oracle_failures(plain)


def test_the_worst_map_of_a_method_is_its_lowest(field: ExamResults, remade: PaperFigures) -> None:
    frame = field.frame()
    worst = examples.worst_samples(field, frame, remade.names)
    assert [example["method"] for example in worst] == [method for method in field.methods if method != ORACLE]
    for example in worst:
        mine = frame[(frame["method"] == example["method"]) & (frame["sample"] == example["sample"])]
        lowest = frame.loc[frame["method"] == example["method"], "pafl"].min()
        assert mine.loc[mine["setting"] == example["setting"], "pafl"].item() == lowest
        assert example["pafl"] == score(lowest)


def test_the_grid_shows_the_same_pictures_in_all_settings(field: ExamResults) -> None:
    samples = examples.same_inputs(field)
    assert [sample.partition("/")[0] for sample in samples] == ["bucket-06", "bucket-09", "bucket-10", "bucket-12"]
    for sample in samples:
        scene, other = (examples.SceneExample.of(sat, sample) for sat in field.scenes.values())
        assert np.array_equal(scene.pixels, other.pixels)
    rows = examples.map_grid(field, "gradient", samples, "gradient")
    assert [[cell["focus"] for cell in row["cells"]] for row in rows] == [
        ["nothing", "text B"], ["box1", "box1"], ["box1", "box2 and box1"], ["box1", "box2 and box1"],
    ]  # fmt: skip


def test_the_example_has_a_right_map_and_a_wrong_one(field: ExamResults, remade: PaperFigures) -> None:
    example = examples.right_and_wrong(field, field.frame(), remade.names)
    assert example is not None
    assert float(example["right"]["pafl"]) > float(example["wrong"]["pafl"])
    assert float(example["wrong"]["safl"]) > float(example["wrong"]["pafl"])


def test_one_setting_alone_makes_a_page(field: ExamResults) -> None:
    settings = {"simple-fr": field.record["settings"]["simple-fr"]}
    alone = ExamResults(field.folder, {**field.record, "settings": settings})
    text = pages.page(alone, "report.csv")
    assert "PAFL, simple" in text
    assert "PAFL, complex" not in text
    assert "cannot be decided" in text


def test_a_method_without_maps_in_some_settings_is_undefined_there(field: ExamResults) -> None:
    frame = field.frame()
    figure = remade_of(field, frame[(frame["method"] != "grad-cam") | frame["simple"]]).summary()
    row = next(cells for cells in figure.table.rows if cells[0] == "grad-cam")
    assert row[1] != "—"
    assert row[3:5] == ("—", "—")
    cells = next(line for _, some in figure.groups for line in some if line.method == "grad-cam").cells
    assert "undefined" in cell_chart(cells[1], figure.panels[1], "grad-cam").svg()


def test_rows_are_drawn_to_scale_and_described_in_words() -> None:
    panel = DotPlotPanel(title="PAFL", threshold=0.5, best_control=0.4, oracle=1.0)
    cell = DotPlotCell(dots=(Dot(0.25, "dot", "average"), Dot(math.nan, "ring", "worst <bucket>")), bar=0.25)
    svg = cell_chart(cell, panel, "a & b").svg()
    assert 'aria-label="a &amp; b, PAFL: average 0.25, average 0.25, worst &lt;bucket&gt; undefined"' in svg
    assert svg.count('class="full ink"') == 1
    assert 'cx="26.50%"' in svg
    assert 'class="threshold" x1="50.00%"' in svg
    assert 'class="oracle" x1="97.00%"' in svg


def test_families_have_words_and_members() -> None:
    families = {name: family(name) for name in registry.METHODS}
    assert set(families.values()) == set(FAMILIES) - {"Other methods"}
    for name in ("gradient", "integrated-gradients@kim2022", "rise(masks=9)", "grad-cam++"):
        assert family(name) == families[plain_name(name)]
    assert family("somebody:Else") == "Other methods"


def test_scores_are_kept_with_the_field_and_computed_again_where_they_are_cut_off(
    field: ExamResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = field.frame("paper")
    field.frame("published-code")
    kept = sorted((field.folder / "simple-fr" / "truth").glob("*/*.parquet"))
    assert len(kept) == 2 * len(field.methods)
    for path in kept:
        path.write_bytes(path.read_bytes()[:100])
    computed = []
    real = scoring.score
    monkeypatch.setattr(scoring, "score", lambda *all, **some: computed.append(all[2]) or real(*all, **some))
    pd.testing.assert_frame_equal(ExamResults.read(field.folder).frame("paper"), first)
    assert sorted(computed) == sorted(field.methods)
    computed.clear()
    pd.testing.assert_frame_equal(ExamResults.read(field.folder).frame("paper"), first)
    assert not computed
    monkeypatch.setattr(scoring, "VERSION", 0)
    pd.testing.assert_frame_equal(ExamResults.read(field.folder).frame("paper"), first)
    assert len(computed) == 2 * len(field.methods)


def test_maps_without_a_score_are_counted(field: ExamResults, remade: PaperFigures) -> None:
    frame = field.frame()
    assert not pages._undefined_maps(field, frame, remade.names)
    defined = frame["pafl"].notna() & (frame["method"] == "grad-cam")
    frame.loc[frame.index[defined][:3], ["pafl", "safl"]] = math.nan
    assert pages._undefined_maps(field, frame, remade.names) == [{"name": "grad-cam", "maps": 3, "of": int(defined.sum())}]


def test_the_lede_counts_maps_of_methods_and_shared_work_once(
    field: ExamResults, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes = sum(map(len, field.scenes.values()))
    assert f"{len(METHODS)} methods drew {len(METHODS) * scenes} maps" in " ".join(text.split())
    for run in field.runs.values():
        assert run.record.totals is not None
        monkeypatch.setattr(run, "record", run.record.changed(totals=run.record.totals.changed(seconds=3600.0)))
    assert pages._counts(field, field.frame())["seconds"] == numbers.duration(2 * 3600.0)
