"""The masks as maps stand apart on every page, with what they mean, and what they say about a metric."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console
from tests.report.outline import words
from tests.report.recorded import Recorded, method, metric

from snellen.report import curve_figure, run_html, run_summary, score_figure, summary_table
from snellen.report.page import page
from snellen.report.positive_controls import MEANING, SURPRISE, by_metric, note_of
from snellen.verdicts import fooled

IMAGES = 40
NOISE = np.random.default_rng(0).normal(0, 0.1, IMAGES)


def recorded(truth: float, *, images: int = IMAGES, blur: float = 0.0, **settings) -> Recorded:
    """A method of 0.6, two controls of 0.4 and 0.3, and a truth of this mean."""
    settings = {"metrics": [metric("deletion", higher=False), metric("pointing-game")]} | settings
    run = Recorded(
        methods=[method("grad-cam"), method("random", control=True), method("edge", control=True)],
        positive=[method("truth"), method("blurred-truth")],
        ids=[f"{at}.png" for at in range(images)],
        **settings,
    )
    more = np.random.default_rng(1).normal(0, 0.01 + blur, images)
    means = {"grad-cam": 0.6, "random": 0.4, "edge": 0.3, "truth": truth, "blurred-truth": truth - 0.02}
    for by in run.metrics:
        sign = 1 if by.higher_is_better else -1
        for name, mean in means.items():
            own = more if "truth" in name else 0
            run.values[(name, by.label)] = sign * (mean + NOISE[:images] + own)
    return run


def note(run: Recorded, name: str = "pointing-game") -> str:
    return note_of(by_metric(run)[name])


def printed(run: Recorded, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(summary_table(run))
    return out.getvalue()


def test_a_truth_above_all_controls_needs_no_words():
    run = recorded(0.9)
    assert note(run) == note(run, "deletion") == ""
    assert "About this metric" not in words(page(run))
    assert SURPRISE not in printed(run, 400)


def test_a_truth_below_a_control_is_news_about_the_metric():
    run = recorded(0.35)
    for by in ("deletion", "pointing-game"):  # whichever way the metric points, positive is better
        assert note(run, by).startswith("truth scores worse than random (by −0.05")
    expected = note(run)
    assert re.fullmatch(r"truth .* \(by −.*, n = 40\); blurred-truth scores worse than random \(by .*, n = 40\)", expected)
    assert f"About this metric: {expected}. {SURPRISE}" in words(page(run))
    lines = " ".join(printed(run, 400).split())
    assert f"pointing-game: {expected}." in lines
    assert lines.count(SURPRISE) == 1


def test_a_truth_like_a_control_is_no_better_than_it():
    truth, blurred = note(recorded(0.4)).split("; ")
    assert truth.startswith("truth scores no better than random (by ")
    assert truth.endswith("n = 40), within the margin")
    assert blurred.startswith("blurred-truth scores worse than random")


def test_a_truth_that_is_not_clear_of_a_control_claims_nothing():
    run = recorded(0.43, blur=0.1)
    for control in run.verdicts().positive_controls:
        assert control.comparison == "inconclusive"
    assert note(run).startswith("truth is not clear of random (by ")
    assert SURPRISE not in words(page(run))


def test_few_images_axioms_and_runs_without_controls_say_nothing():
    assert note(recorded(0.1, images=12)) == ""
    assert note(recorded(0.1, metrics=[metric("completeness", tolerance=0.01)]), "completeness") == ""
    alone = recorded(0.1)
    alone.methods = alone.methods[:1]
    assert note(alone) == ""


def test_no_verdict_and_no_ranking_includes_them():
    run = recorded(0.9)
    verdicts = run.verdicts()
    assert {judgement.method for judgement in verdicts.judgements} == {"grad-cam"}
    assert set(verdicts.summary["method"]) == {"grad-cam", "random", "edge"}
    assert fooled(verdicts.summary) == {}  # with the truth as a rival of the controls, nothing else would be in the top two
    without = recorded(0.9)
    without.positive = []
    assert without.verdicts().judgements == verdicts.judgements
    assert without.verdicts().positive_controls == ()


def test_the_page_shows_them_apart():
    text = page(recorded(0.9))
    plain = words(text)
    assert MEANING in plain
    assert "beside the masks themselves as maps (truth and blurred-truth)" in plain
    assert "1 saliency method and 2 controls" in plain
    assert "Positive controls: the masks themselves as maps" in plain
    assert plain.count("(positive control)") == 2 * 12 + 2  # photographs and settings
    assert text.count('<li class="masks">') == 4
    assert re.search(r"grad-cam: mean [^;]*; controls: [^;]*; positive controls: truth −0\.\d+, blurred-truth −0\.\d+", text)
    assert re.search(r'<line [^>]*class="oracle"', text)
    assert text.index(">grad-cam") < text.index("<tbody class=control>") < text.index("<tbody class=positive>")
    without = recorded(0.9)
    without.positive = []
    assert "positive" not in words(page(without)).replace("positive is better", "").replace("positive value", "")


def test_the_picture_at_the_top_is_never_the_mask():
    run = recorded(0.9)
    run.methods = run.methods[1:]  # only controls
    assert "over 0.png" in page(run)
    assert 'alt="map of truth over' not in page(run)


def test_a_metric_that_explains_again_has_an_empty_cell_with_the_reason():
    why = "the maps are made of the masks, and this metric must explain changed images, targets or models by the same method"
    run = recorded(0.9, refused={(name, "pointing-game"): why for name in ("truth", "blurred-truth")})
    plain = words(page(run))
    assert f"not run on truth, blurred-truth: {why}." in plain
    assert "explains again" in plain
    assert page(run).count('<li class="masks">') == 2
    assert f"pointing-game on truth, blurred-truth: {why}" in " ".join(printed(run, 400).split())
    assert run_html(run).count(f'<td title="{why}">–</td>') == 2
    assert "undefined" not in run_html(run)


def test_undefined_scores_of_empty_masks_are_counted_in_place():
    run = recorded(0.9)
    run.values[("truth", "deletion")][:3] = np.nan
    row = next(control.row for control in run.verdicts().positive_controls)
    assert (row.n, row.undefined) == (37, 3)
    run.metrics[0] = metric("deletion", higher=False, undefined="never")
    assert "truth: 3 of 40 scores undefined: the truth is empty." in words(page(run))
    assert "○ deletion on truth: 3 of 40 undefined (the truth is empty)." in printed(run)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_terminal_has_a_group_of_them(width):
    text = printed(recorded(0.9), width)
    lines = [line.strip() for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= width
    assert lines.index("controls") < lines.index("positive controls")
    assert any(re.match(r"truth +−?0\.\d", line) for line in lines)


def test_figures_and_notebooks_show_them():
    run = recorded(0.9)
    figure = str(score_figure(run, "pointing-game").standalone())
    assert "truth" in figure
    assert "blurred-truth" in figure
    curves = str(curve_figure(run, "deletion").standalone())
    assert "oracle" in curves
    assert "truth has" in curves
    table = run_html(run)
    assert "<th>truth (positive control)</th>" in table
    numbers = run_summary(run)["numbers"]
    assert numbers["truth/pointing-game/n"] == IMAGES
    assert numbers["truth/pointing-game/mean"] == pytest.approx(0.9, abs=0.03)
    assert not any(key.startswith("truth/") for key in run_summary(run)["verdicts"])
