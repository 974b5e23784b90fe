"""The page says what the run found, never more than n allows, and survives odd runs and hostile names."""

from __future__ import annotations

import os
import re
import stat

import numpy as np
import pytest
from tests.report.outline import Outline, words
from tests.report.recorded import METHODS, Recorded, method, metric

from snellen.charts.chart import Bar
from snellen.errors import SnellenError
from snellen.plugins.registry import Attribute
from snellen.report import write_report
from snellen.report.attributes import CATEGORIES
from snellen.report.cost_bars import cost_bars
from snellen.report.page import _costs, page
from snellen.verdicts import MINIMUM_IMAGES

NAN = float("nan")


@pytest.fixture(scope="module")
def demo() -> str:
    run = Recorded()
    run.values = {("fake-cam", "average-drop"): np.full(7, 0.01), ("centre", "average-drop"): np.full(7, 0.9)}
    for name in METHODS:
        run.values[(name, "energy-pointing-game")] = np.full(7, NAN)
        run.values[(name, "pointing-game")] = np.array([1, 0, 1, 0, 1, NAN, NAN])
    return page(run)


def test_the_page_is_well_formed_and_loads_no_other_address(demo):
    outline = Outline(demo)
    assert outline.wrong == []
    assert outline.open == []
    assert all(link.startswith(("data:", "#")) for link in outline.links)
    assert not re.search(r"url\(|@import|<script|<link|<iframe|https?://(?!www\.w3\.org)", demo)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))


def test_the_page_says_what_is_known_about_the_model(demo):
    facts = {"spec": "hf:folder", "source": "hf", "processor": {"resample": 3}, "versions": {"transformers": "5.23.0"}}
    text = page(Recorded(model=facts))
    assert "<dt>source</dt><dd>hf, transformers 5.23.0</dd>" in text
    assert "<dt>processor</dt>" in text
    assert "resample" in text
    assert "<dt>source</dt>" not in demo


def test_headings_never_skip_a_level_and_graphics_have_words(demo):
    outline = Outline(demo)
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    for tag, attributes in outline.tags:
        if tag == "img":
            assert attributes["alt"]
        if tag == "th":
            assert attributes["scope"] in {"col", "row", "colgroup", "rowgroup"}
    graphics = [attributes for tag, attributes in outline.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(graphics) > 80
    assert all(attributes["aria-label"] for attributes in graphics)


def test_every_method_metric_and_control_is_named(demo):
    seen = words(demo)
    run = Recorded()
    for spec in [*run.methods, *run.metrics]:
        assert spec.label in seen
    assert "8 saliency methods and 4 controls" in seen
    assert "Selvaraju" in seen


def test_few_images_give_no_verdict_words(demo):
    seen = words(demo)
    assert "7 images are too few for a verdict." in seen
    assert not re.search(r"[●■] ?(pass|fail)|\b(fails?|failed|passed|inconclusive|not counted)\b", seen, flags=re.IGNORECASE)
    assert 'class="v ' not in demo


def test_a_fooled_metric_says_so_and_an_honest_one_does_not():
    run = Recorded(metrics=[metric("drop", higher=False), metric("gain")])
    for at, name in enumerate(METHODS):
        control = METHODS[name][1]
        run.values[(name, "drop")] = np.linspace(0.4, 0.6, 7) + at / 100
        run.values[(name, "gain")] = np.linspace(0.4, 0.6, 7) - at / 100 - control
    run.values[("fake-cam", "drop")] = np.linspace(0, 0.01, 7)
    seen = words(page(run))
    assert seen.count("◆ fooled. ") == 1
    assert "fake-cam is in the top two on these 7 images" in seen


def test_undefined_scores_say_so_in_place(demo):
    seen = words(demo)
    assert "undefined on every image: the truth mask is empty." in seen
    assert "24 of 84 scores undefined: the truth mask is empty." in seen
    assert "5 of 7 defined" in seen
    assert len(re.findall(r"<td class=empty>undefined</td>", demo)) == len(METHODS)
    assert not re.search(r"\bnan\b", seen, flags=re.IGNORECASE)


def test_enough_images_give_verdicts_with_shape_word_and_reason():
    n = MINIMUM_IMAGES + 10
    run = Recorded(ids=[f"{at}.jpg" for at in range(n)], metrics=[metric("insertion")])
    rng = np.random.default_rng(0)
    for name, (_, control) in METHODS.items():
        run.values[(name, "insertion")] = rng.normal(0.3 if control else 0.6, 0.05, n)
    run.values[("rise", "insertion")] = rng.normal(0.1, 0.05, n)
    text = page(run)
    seen = words(text)
    assert "too few for a verdict" not in seen
    assert seen.count("● pass") == 14
    assert seen.count("■ fail") == 2
    assert "worse than random, edge, fake-cam, centre" in seen
    assert f"The first 12 of {n} images; {n - 12} more are not shown." in seen
    assert text.count('class="photo"') == 12


def test_a_metric_with_too_few_defined_scores_is_not_counted():
    n = MINIMUM_IMAGES + 10
    run = Recorded(ids=[f"{at}.jpg" for at in range(n)], metrics=[metric("pointing-game")])
    for name, (_, control) in METHODS.items():
        run.values[(name, "pointing-game")] = np.where(np.arange(n) < 20, 0.2 if control else 0.8, NAN)
    seen = words(page(run))
    assert "20 of 40 defined, too few" in seen
    assert "● pass" not in seen


EVIL = "<script>alert(1)</script>\"'&/../x.jpg"


def test_names_from_users_cannot_become_markup():
    run = Recorded(ids=[EVIL], methods=[method(EVIL), method(EVIL + "2", control=True)],
                   metrics=[metric(EVIL), metric("deletion")], notes=[EVIL])  # fmt: skip
    text = page(run)
    assert "<script" not in text
    assert Outline(text).wrong == []
    assert text.count("&lt;script&gt;") > 10


TWO = [metric("deletion", higher=False), metric("sparseness", "minimality")]


@pytest.mark.parametrize(
    "run",
    [
        Recorded(methods=[method("grad-cam"), method("gradient", signed=True)], labels=False, metrics=TWO),
        Recorded(methods=[method("random", control=True), method("edge", control=True)], metrics=TWO),
        Recorded(ids=["one.jpg"], metrics=TWO),
        Recorded(ids=["one.jpg"], methods=[method("grad-cam")], metrics=[metric("deletion", higher=False)]),
        Recorded(metrics=[], ids=["a", "b"]),
        Recorded(ids=[f"{at}.jpg" for at in range(40)], methods=[method("grad-cam")], metrics=TWO),
        Recorded(ids=[f"{at}.jpg" for at in range(40)], methods=[method("random", control=True)], metrics=TWO),
        Recorded(methods=[method("smoothgrad(of=integrated-gradients(baseline=blur(sigma=5)), samples=8)")], metrics=TWO),
        Recorded(methods=[method("rise"), *(method(f"random(seed={at})", control=True) for at in range(9))], metrics=TWO),
    ],
    ids=["no controls", "controls only", "one image", "one of each", "no metric", "many without controls",
         "many controls only", "long label", "nine controls"],
)  # fmt: skip
def test_odd_runs_still_make_a_whole_page(run):
    text = page(run)
    outline = Outline(text)
    assert outline.wrong == []
    assert outline.open == []
    seen = words(text)
    for spec in [*run.methods, *run.metrics]:
        assert spec.label in seen
    if not any(method_spec.control for method_spec in run.methods) and run.metrics:
        assert "No controls were run" in seen
    if not run.labels:
        assert "none given" in seen


def test_an_unfinished_run_says_so_and_shows_what_there_is():
    text = page(Recorded(finished=None, unrun=frozenset({"rise"}), metrics=TWO))
    seen = words(text)
    assert "This run is unfinished." in seen
    assert "not computed" in seen
    assert len(re.findall(r"<td class=empty>not run</td>", text)) == 2
    assert "undefined:" not in seen.replace("Undefined:", "")


def test_a_method_without_finished_maps_has_no_price():
    run = Recorded()
    costs = run.costs().assign(images=0, seconds=0.0)
    run.costs = lambda: costs
    assert {(row["forward"], row["each"]) for row in _costs(run, run.record.spec)} == {("–", "not measured")}


def test_bars_show_what_a_map_costs_the_slowest_first_and_controls_too(demo):
    run = Recorded()
    bars = cost_bars(run)
    each = (run.costs()["seconds"] / 7).tolist()
    order = sorted(range(len(each)), key=lambda place: -each[place])
    assert [row.name for row in bars.rows] == [run.methods[place].label for place in order]
    assert [row.name for row in bars.rows if row.control] == [name for name, (_, control) in METHODS.items() if control]
    # Occlusion: 7 * 281 forward passes of 12 ms inside the model, 1 ms outside it, and 10 ms for all seven maps.
    row = next(row for row in bars.rows if row.name == "occlusion")
    assert (row.time, row.share) == ("3.65 s", "92 % in the model")
    model, rest = (shape for shape in row.bar.shapes if isinstance(shape, Bar))
    assert model.width / (model.width + rest.width) == pytest.approx(0.012 * 1967 / (0.013 * 1967 + 0.01))
    assert 'aria-label="occlusion: 3.65 s per map, 92 % in the model"' in demo
    assert "metrics are left out" in words(demo)


def test_costs_that_were_not_measured_have_no_bar():
    run = Recorded(methods=[method("gradient"), method("rise")])
    costs = run.costs()
    costs.loc[0, "images"] = 0
    run.costs = lambda: costs
    rows = cost_bars(run).rows
    assert [(row.name, row.time, row.share) for row in rows][1] == ("gradient", "not measured", "")
    assert not any(isinstance(shape, Bar) for shape in rows[1].bar.shapes)
    run.costs = lambda: costs.assign(images=0)
    assert cost_bars(run) is None
    assert "What a map costs" not in page(run)
    run.costs = lambda: costs[:0]
    assert cost_bars(run) is None


def test_the_page_of_seven_photographs_stays_small(demo):
    assert len(demo) < 6_000_000


def test_the_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    run = Recorded(methods=[method("grad-cam")], metrics=[metric("insertion")])
    path = write_report(run, tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["report.html"]
    before = path.read_bytes()
    monkeypatch.setattr(Recorded, "costs", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(run, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["report.html"]


def test_a_path_that_cannot_be_written_gets_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    run = Recorded(methods=[method("grad-cam")], metrics=[])
    with pytest.raises(SnellenError, match=r"cannot write the report to .*file/report\.html"):
        write_report(run, tmp_path / "file" / "report.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SnellenError, match="cannot write the report"):
        write_report(run, tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_all_ten_attributes_have_a_place_and_a_question():
    placed = [key for attributes in CATEGORIES.values() for key in attributes]
    assert sorted(placed) == sorted(Attribute.__args__)


def test_text_colours_have_enough_contrast():
    style = re.search(r"<style>(.*?)</style>", page(Recorded(methods=[method("a")], metrics=[])), flags=re.DOTALL)[1]
    colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", style))

    def luminance(colour):
        share = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    for name in set(colours) - {"paper", "panel", "line"}:
        for ground in ("paper", "panel"):
            assert (luminance(colours[ground]) + 0.05) / (luminance(colours[name]) + 0.05) >= 4.5, (name, ground)


def test_a_trace_with_names_is_a_table_and_not_a_curve():
    run = Recorded(metrics=[metric("deletion", points=("blur", "rotation (90°)"))], methods=[method("grad-cam")])
    run.curves = lambda label: {"grad-cam": np.array([[0.25, 0.5], [0.75, NAN]])}
    text = words(page(run))
    assert "part grad-cam blur 0.50 rotation (90°) 0.50" in text
    assert "Curves" not in text
    assert 'class="panel"' not in page(run)


def test_a_refused_score_says_why_in_its_place():
    run = Recorded(methods=[method("grad-cam"), method("rise")], metrics=[metric("deletion")])
    run.refused = {("rise", "deletion"): "rise and deletion do not go together"}
    assert "○ not run on rise: rise and deletion do not go together." in words(page(run))


def test_an_axiom_is_judged_without_controls():
    run = Recorded(methods=[method("grad-cam")], metrics=[metric("completeness", higher=False, tolerance=0.01)])
    run.ids = [f"{at}.png" for at in range(MINIMUM_IMAGES)]
    run.values = {("grad-cam", "completeness"): np.full(MINIMUM_IMAGES, 0.005)}
    text = words(page(run))
    assert "● pass grad-cam" in text
    assert "within 0.01 of the best value" in text


def test_margin_rule_and_advice_stand_with_the_verdict_and_an_axiom_has_no_empty_columns():
    n = MINIMUM_IMAGES + 10
    keeps = metric("completeness", higher=False, tolerance=0.05)
    run = Recorded(ids=[f"{at}.jpg" for at in range(n)], metrics=[metric("insertion"), keeps])
    rng = np.random.default_rng(0)
    for name, (_, control) in METHODS.items():
        run.values[(name, "insertion")] = rng.normal(0.3 if control else 0.6, 0.05, n)
        run.values[(name, "completeness")] = np.full(n, 0.01)
    run.values[("rise", "insertion")] = rng.normal(0.32, 0.05, n)
    seen = words(page(run))
    assert "alike within a margin of 0.2 standard deviations of the scores" in seen
    # 0.2 standard deviations are 0.01; their lower limit is what counts.
    assert re.search(rf"n = {n}, margin 0\.00[789]", seen)
    assert "whose 98% bootstrap intervals hold together for all methods and controls" in seen
    assert re.search(r"◆ inconclusive not clear of [a-z, -]+; about \d+ more images would settle it", seen)
    assert "within 0.05 of 0: at most 0.01" in seen
    assert "no pair" not in seen


def test_a_metric_that_a_control_wins_outright_is_not_counted():
    n = MINIMUM_IMAGES + 10
    run = Recorded(ids=[f"{at}.jpg" for at in range(n)], metrics=[metric("insertion")])
    rng = np.random.default_rng(0)
    for name in METHODS:
        run.values[(name, "insertion")] = rng.normal(0.9 if name == "edge" else 0.3, 0.05, n)
    seen = words(page(run))
    assert (
        "a map can score well on this metric without explaining anything. "
        "Its verdicts weigh less on cards, and are not counted here, since it wins" in seen
    )
    assert "fooled by edge, which wins against nearly every map; otherwise fail" in seen
