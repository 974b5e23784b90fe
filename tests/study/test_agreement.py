"""Do metrics predict people: by hand, against twins, with a planted link, and in studies where there is none."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.report.outline import Outline, words
from tests.report.recorded import metric
from tests.study.linked_study import ARMS, answers, knowledge, linked, shuffled

from snellen.charts.html_page import render_page
from snellen.study.joining import item_tables
from snellen.study.joining.agreement import PERMUTATIONS, Agreement, agree, measure
from snellen.study.joining.item_tables import TaskScores
from snellen.study.simulation.effect import Effect


@pytest.fixture(scope="module")
def study_and_run(tmp_path_factory):
    return linked(tmp_path_factory.mktemp("linked") / "study")


@pytest.fixture(scope="module")
def planted(study_and_run) -> Agreement:
    study, run = study_and_run
    effect = Effect({"abilities": {"lime": 0.8}}, knowledge(study, run, "knowing", 2.5))
    return agree(run, answers(study, 72, effect), study)


# By hand -----------------------------------------------------------------------------------------------------------------


def test_levels_are_taken_out_by_hand():
    # Ranks 1 2 / 4 3: methods have the means 2.5 and 2.5, items 1.5 and 3.5, all 2.5.
    left = item_tables.double_centred_ranks(np.array([[10.0, 20.0], [90.0, 50.0]]))
    np.testing.assert_allclose(left, [[-0.5, 0.5], [0.5, -0.5]])
    other = item_tables.double_centred_ranks(np.array([[0.0, 3.0], [5.0, 4.0]]))
    assert item_tables.link(left, other) == pytest.approx(1.0)
    assert item_tables.link(left, -other) == pytest.approx(-1.0)


def test_an_image_that_is_easy_with_any_map_and_a_method_that_is_good_anywhere_are_no_link():
    items, methods = np.arange(6.0)[:, None], np.array([0.0, 100.0, 200.0])
    assert not item_tables.double_centred_ranks(items + methods).any()
    row = measure("m", items + methods, np.random.default_rng(0).normal(size=(6, 3)), seed=0)
    assert (row.relation, row.p_holm) == ("too few", pytest.approx(math.nan, nan_ok=True))
    assert "by people's answers methods differ in the same way on every image" in row.reason


def test_the_order_of_methods_by_hand():
    people = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    metric = np.array([[10.0, 20.0, 30.0], [1.0, 2.0, 4.0], [1.0, 2.0, 3.0]])
    assert item_tables.order_within_items(people, metric) == pytest.approx(
        (1 - 1) / 2
    )  # the third tells nothing, and is left out


def test_people_s_means_by_hand(study_and_run):
    study, _ = study_and_run
    collected = answers(study, 12, Effect())
    table = TaskScores.of(collected, study, "class-accuracy", ARMS)
    rows = collected.answers[(collected.answers["task"] == "class-accuracy") & ~collected.answers["practice"].astype(bool)]
    for item, method in itertools.product(table.items, table.methods):
        mine = rows[(rows["item"] == item) & (rows["arm"] == method)]["score"]
        # A distance is better the smaller it is, so it is turned round.
        assert table.means()[table.items.index(item), table.methods.index(method)] == pytest.approx(-mine.mean())
    assert table.participants == 9  # three more saw no map


# Twins -------------------------------------------------------------------------------------------------------------------


def twin(people: np.ndarray, metric: np.ndarray) -> float:
    """The correlation of what two regressions on dummies of items and methods leave of the ranks."""
    items, methods = people.shape
    dummies = np.column_stack([np.repeat(np.eye(items), methods, axis=0), np.tile(np.eye(methods), (items, 1))])
    left = []
    for scores in (people, metric):
        ranks = pd.Series(scores.ravel()).rank().to_numpy()
        left.append(ranks - dummies @ np.linalg.lstsq(dummies, ranks, rcond=None)[0])
    return float(np.corrcoef(*left)[0, 1])


@pytest.mark.parametrize("shape", [(5, 2), (12, 3), (9, 6)])
def test_the_link_is_that_of_two_regressions(shape):
    draw = np.random.default_rng(3)
    people, metric = draw.normal(size=shape).round(1), draw.lognormal(size=shape)
    assert measure("m", people, metric, seed=0).link == pytest.approx(twin(people, metric))


def test_p_is_that_of_all_pairings_of_few_items():
    draw = np.random.default_rng(8)
    people, metric = draw.normal(size=(5, 3)), draw.normal(size=(5, 3))
    row = measure("m", people, metric, seed=0)
    every = [abs(twin(people, metric[list(order)])) for order in itertools.permutations(range(5))]
    exact = float(np.mean(np.array(every) >= abs(row.link) - 1e-9))
    assert row.p_uncorrected == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / PERMUTATIONS) + 1e-3)


def test_the_slope_is_close_to_that_of_fixed_effects():
    import statsmodels.formula.api as smf

    draw = np.random.default_rng(1)
    metric = draw.normal(size=(20, 3)) + np.array([0.0, 2.0, 4.0])
    people = 0.5 * metric + draw.normal(0, 1, (20, 1)) + np.array([3.0, 0.0, 0.0]) + draw.normal(0, 0.3, (20, 3))
    cells = pd.DataFrame({
        "people": people.ravel(), "metric": ((metric - metric.mean()) / metric.std()).ravel(),
        "item": np.repeat(np.arange(20), 3), "method": np.tile(np.arange(3), 20),
    })  # fmt: skip
    fixed = smf.ols("people ~ metric + C(method) + C(item)", cells).fit()
    row = measure("m", people, metric, seed=0)
    assert row.slope == pytest.approx(fixed.params["metric"], rel=0.05)
    low, high = fixed.conf_int().loc["metric"]
    assert (row.slope_low, row.slope_high) == pytest.approx((low, high), rel=0.1)
    # The first method is good for people and bad in the metric: left in, that hides the link.
    assert row.slope_all < row.slope


# Whole studies -----------------------------------------------------------------------------------------------------------


def test_a_planted_link_is_found_and_nothing_else(planted):
    assert [task.task for task in planted.tasks] == ["error-detection", "class-accuracy"]
    for task in planted.tasks:
        assert task.metrics_with("predicts") == ["knowing"], task.task
        assert task.metrics_with("opposite") == []
        knowing = task.metrics[0]
        assert 0 < knowing.low < knowing.link <= knowing.high <= 1
        assert knowing.slope_low > 0
        assert task.methods == ARMS
        assert task.participants == 54
        assert 0.3 < task.reliability <= 1
        assert "1 goes with what people could do (knowing)" in task.sentence
        assert "for 3 there is no sign of it, which with 12 items is weak evidence" in task.sentence


def test_a_metric_that_knows_the_wrong_way_round_is_opposite(study_and_run):
    study, run = study_and_run
    agreement = agree(run, answers(study, 72, Effect(link=knowledge(study, run, "first", -2.5))), study)
    for task in agreement.tasks:
        assert "first" in task.metrics_with("opposite")
        assert task.metrics[1].link == min(metric.link for metric in task.metrics) < -0.4
        assert task.metrics_with("predicts") == []
        assert "against it (" in task.sentence
    assert {link.task for link in agreement.links if (link.metric, link.word) == ("first", "opposite")} == {
        "error-detection",
        "class-accuracy",
    }


def test_a_method_that_people_and_metric_like_everywhere_is_no_link(study_and_run):
    study, run = study_and_run
    levels = {(arm, "knowing"): np.full(len(run.ids), level) for arm, level in zip(ARMS, (3.0, 2.0, 1.0), strict=True)}
    noise = np.random.default_rng(0).normal(0, 0.1, (3, len(run.ids)))
    values = run.values | {key: level + noise[at] for at, (key, level) in enumerate(levels.items())}
    effect = Effect({"abilities": {"lime": 1.6, "guided-backprop": 0.8}})
    agreement = agree(replace(run, values=values), answers(study, 72, effect), study)
    for task in agreement.tasks:
        row = task.metrics[0]
        assert row.order_of_means == pytest.approx(1.0)
        assert row.order_within_items > 0.5
        assert row.relation == "no sign"


def test_the_order_of_rows_changes_nothing(study_and_run):
    study, run = study_and_run
    collected = answers(study, 24, Effect(link=knowledge(study, run, "knowing", 1.0)))
    mixed = replace(run)
    mixed.scores = lambda: run.scores().sample(frac=1, random_state=3)  # type: ignore[method-assign]
    # Numbers that are not there are equal too.
    assert repr(agree(mixed, shuffled(collected, 5), study)) == repr(agree(run, collected, study))


def test_within_subjects_people_s_own_levels_do_not_matter(tmp_path):
    study, run = linked(tmp_path / "s", design="within")
    collected = answers(study, 72, Effect(link=knowledge(study, run, "knowing", 2.5)))
    moved = collected.answers.copy()
    moved["score"] = moved["score"] + 100.0 * (pd.factorize(moved["participant"])[0] % 7)
    first_agreement, again = (agree(run, data, study) for data in (collected, replace(collected, answers=moved)))
    for mine, other in zip(first_agreement.tasks, again.tasks, strict=True):
        assert mine.metrics_with("predicts") == ["knowing"]
        assert [metric.link for metric in mine.metrics] == pytest.approx([metric.link for metric in other.metrics])


def test_too_little_is_said_in_words_and_has_no_numbers(tmp_path):
    study, run = linked(tmp_path / "s", tasks=[{"task": "betting", "items": 4}, {"task": "confidence", "items": 5}])
    first, second = agree(run, answers(study, 24, Effect()), study).tasks
    assert {metric.relation for metric in first.metrics} == {"too few"}
    assert first.sentence == "Betting: 4 items with scores, where at least 5 are needed, so nothing can be said."
    assert all(math.isnan(metric.link) and math.isnan(metric.p_holm) for metric in first.metrics)
    assert math.isnan(first.detectable)
    assert second.tested == 4
    alone = replace(run, methods=[run.methods[0], run.methods[3]])
    for task in agree(alone, answers(study, 24, Effect()), study).tasks:
        assert {metric.reason for metric in task.metrics} == {"1 method with scores, where at least 2 are needed"}


def test_a_method_that_a_metric_cannot_score_is_left_out_of_that_metric_alone(study_and_run):
    study, run = study_and_run
    partial = replace(run, refused={("lime", "second"): "no baseline"})
    rows = {row.metric: row for row in agree(partial, answers(study, 24, Effect()), study).tasks[0].metrics}
    assert (rows["second"].methods, rows["first"].methods) == (2, 3)
    assert (rows["second"].items, rows["first"].items) == (12, 12)


def test_what_could_have_been_found_is_what_is_found_in_four_of_five():
    draw, links, limits, significant = np.random.default_rng(0), [], [], []
    for _ in range(120):
        metric = draw.normal(size=(24, 3))
        level = [item_tables.double_centred_ranks(table) for table in (metric + draw.normal(0, 2.2, (24, 3)), metric)]
        drawn = item_tables.permuted_links(*level, times=399, seed=0)
        links.append(item_tables.link(*level))
        limits.append(float(drawn.std()) * (1.96 + 0.84))
        significant.append(np.mean(np.abs(drawn) >= abs(links[-1])) < 0.05)
    # The link that was planted is about as large as the one that is said to be found in 80 %.
    assert np.mean(links) == pytest.approx(np.median(limits), abs=0.06)
    assert 0.7 < np.mean(significant) < 0.9


@pytest.mark.exhaustive
def test_in_null_studies_a_link_is_found_in_about_one_of_twenty(tmp_path):
    """People differ between arms, metrics like some methods everywhere, and neither knows anything of the other."""
    study, run = linked(tmp_path / "s", tasks=[{"task": "error-detection", "items": 12, "practice": 0}], scales=[])
    names = [f"metric {at}" for at in range(10)]
    draw, chances, families = np.random.default_rng(5), [], 0
    for seed in range(50):
        values = {(arm, name): draw.normal(0, 1, len(run.ids)) + draw.normal(0, 2) for arm in ARMS for name in names}
        blind = replace(run, values=values, metrics=[metric(name) for name in names])
        effect = Effect({"abilities": {"lime": 1.0, "grad-cam": 0.5}})
        rows = agree(blind, answers(study, 24, effect, seed=seed), study).tasks[0].metrics
        chances += [row.p_uncorrected for row in rows]
        families += any(row.relation in ("predicts", "opposite") for row in rows)
    assert 0.03 < np.mean(np.array(chances) < 0.05) < 0.07  # of 500, alone
    assert families <= 7  # of 50, each of ten metrics, corrected


@pytest.mark.exhaustive
def test_the_interval_holds_what_it_promises():
    draw, inside, links = np.random.default_rng(2), [], []
    for _ in range(400):
        metric = draw.normal(size=(12, 3)) + draw.normal(0, 2, 3)
        people = metric + draw.normal(0, 1, (12, 1)) + draw.normal(0, 1, (12, 3))
        row = measure("m", people, metric, seed=0)
        links.append(row.link)
        inside.append((row.low, row.high))
    truth = np.mean(links)
    assert 0.88 < np.mean([low <= truth <= high for low, high in inside]) < 0.98


# The page ----------------------------------------------------------------------------------------------------------------


def test_the_section_is_well_formed_and_says_what_was_found(planted):
    page = render_page("study/report/agreement.html", [], {"agreement": planted})
    outline, seen = Outline(page), words(page)
    assert (outline.wrong, outline.open) == ([], [])
    assert outline.headings == [2, 3, 3]
    for task in planted.tasks:
        assert task.answer in seen
    assert seen.count("predicts") >= 2
    assert "Simulated participants." in seen
    graphics = [attributes for _, attributes in outline.tags if attributes.get("role") == "img"]
    assert len(graphics) == 2 * (4 + 1)
    assert all(graphic["aria-label"] for graphic in graphics)
    assert "Kares" in seen
    assert "nan" not in seen.lower().split()
