"""The terminal summary fits its width, sets controls apart, and says what n allows."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from tests.report.recorded import METHODS, Recorded, method, metric

from snellen.report import summary_table


def printed(run, width: int, colour: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=colour, color_system="standard" if colour else None).print(
        summary_table(run)
    )
    return out.getvalue()


@pytest.mark.parametrize(("width", "tables"), [(100, 1), (80, 2), (40, 6)])
def test_eleven_metrics_fit_the_width_in_as_few_tables_as_possible(width, tables):
    text = printed(Recorded(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.count("occlusion") == tables
    assert text.count("\ncontrols") == tables


def test_values_stand_in_the_row_of_their_method():
    run = Recorded(
        methods=[method("grad-cam"), method("rise"), method("random", control=True)], metrics=[metric("insertion")]
    )
    for name, value in (("grad-cam", 0.625), ("rise", 12.34), ("random", 0.01)):
        run.values[(name, "insertion")] = np.full(7, value)
    rows = [line.split() for line in printed(run, 80).splitlines()]
    assert ["grad-cam", "0.62"] in rows
    assert ["rise", "12.3"] in rows
    assert ["random", "0.01"] in rows
    assert rows.index(["rise", "12.3"]) < rows.index(["controls"]) < rows.index(["random", "0.01"])
    assert "fooled" not in printed(run, 80)


def test_fooled_and_undefined_metrics_and_small_n_are_stated_in_words():
    run = Recorded(metrics=[metric("average-drop", higher=False), metric("pointing-game")])
    for name in METHODS:
        run.values[(name, "average-drop")] = np.full(7, 0.0 if name == "fake-cam" else 0.5)
        run.values[(name, "pointing-game")] = np.full(7, np.nan)
    run.values[("rise", "average-drop")] = run.values[("occlusion", "average-drop")] = np.full(7, 0.3)
    text = printed(run, 100)
    assert "◆ average-drop is fooled: fake-cam is in its top two." in text
    assert "○ pointing-game: 84 of 84 scores are undefined (the truth mask is empty)." in text
    assert "7 images are too few for a verdict" in text
    assert "nan" not in text


def test_controls_are_dimmed():
    text = printed(Recorded(metrics=[metric("insertion")]), 100, colour=True)
    random, rise = (next(line for line in text.splitlines() if name in line) for name in ("random", "rise"))
    assert "\x1b[2m" in random
    assert "\x1b[2m" not in rise


def test_enough_images_say_how_small_a_difference_shows():
    assert "too few" not in printed(Recorded(ids=[str(at) for at in range(40)], metrics=[metric("insertion")]), 100)


def test_a_run_without_metrics_prints_words_only():
    assert "too few for a verdict" in printed(Recorded(metrics=[]), 80)


def test_an_unfinished_run_says_how_many_scores_are_missing():
    text = printed(Recorded(finished=None, unrun=frozenset({"rise"}), metrics=[metric("insertion"), metric("deletion")]), 80)
    assert "· 14 scores not computed yet: the run is unfinished." in text
    assert "undefined" not in text


def test_a_long_label_is_folded_where_its_settings_begin():
    text = printed(Recorded(methods=[method("integrated-gradients(steps=8)")], metrics=[metric("insertion")]), 80)
    assert "\nintegrated-gradients" in text
    assert "\n  (steps=8)" in text


@pytest.mark.parametrize(
    "labels",
    [
        ("deletion(steps=6)", "deletion(steps=600)"),
        ("deletion@zhang2024", "deletion@zhang2024-code", "deletion"),
        ("deletion(fill=blur(kernel=5), steps=224)", "deletion(fill=blur(kernel=5), steps=28)"),
    ],
)
def test_two_settings_of_one_metric_never_have_the_same_heading(labels):
    """The columns of headings, read top down, differ."""
    run = Recorded(methods=[method("grad-cam"), method("random", control=True)], metrics=[])
    run.metrics = [metric(label, name="deletion") for label in labels]
    rows = printed(run, 100).splitlines()
    heading = rows[: next(at for at, line in enumerate(rows) if line.startswith("grad-cam"))]
    headings = " ".join("".join(heading).replace("=", "= ").split())
    for label in labels:
        for word in label.replace("deletion", "").replace("(", " ").replace(")", " ").replace("=", "= ").split():
            assert word.strip(",") in headings


def test_a_refused_score_says_why():
    run = Recorded(methods=[method("grad-cam"), method("rise")], metrics=[metric("insertion")])
    run.refused = {("rise", "insertion"): "rise and insertion do not go together"}
    text = printed(run, 80)
    assert "insertion on rise: rise and insertion do not go together." in " ".join(text.split())
    assert "unfinished" not in text
