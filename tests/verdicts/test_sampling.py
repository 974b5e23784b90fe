"""Images in classes or groups: what is drawn, what verdicts are about, and how often they are wrong."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.verdicts.scored import axiom, long, method, metric

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import verdict_limits
from populations import in_classes
from snellen.verdicts import MINIMUM_CLASSES, MINIMUM_GROUPS, certainty, judge, sampling_of, summarise
from snellen.verdicts.intervals import simultaneous
from snellen.verdicts.statistics import interval_of_mean, student_quantile


def samples(labels, groups=None) -> pd.DataFrame:
    rows = {"sample": [f"s{at:04d}" for at in range(len(labels))], "label": pd.array(labels, dtype="Int64")}
    return pd.DataFrame(rows | ({} if groups is None else {"group": groups}))


# What is drawn -----------------------------------------------------------------------------------------------------------


def test_every_class_of_the_model_is_shown_so_images_are_drawn():
    for classes, each in ((2, 50), (10, 6), (100, 2)):
        sampling = sampling_of(samples([at % classes for at in range(classes * each)]), classes)
        assert (sampling.unit, sampling.words, sampling.shown_classes_only, sampling.too_few) == ("image", "", False, False)


def test_one_image_per_class_stands_for_itself():
    assert sampling_of(samples(list(range(0, 1000, 2))), 1000).words == ""


def test_with_few_classes_of_many_verdicts_are_about_these():
    sampling = sampling_of(samples([at % 5 for at in range(100)]), 1000)
    assert (sampling.unit, sampling.shown_classes_only) == ("image", True)
    assert sampling.words == (
        f"images show 5 of the model's 1000 classes, fewer than {MINIMUM_CLASSES}: "
        "verdicts are about these classes only, not about others"
    )
    assert certainty(100, sampling).enough
    assert certainty(100, sampling).words.endswith(sampling.words)
    # One class of two is not the whole either.
    assert sampling_of(samples([1] * 60), 2).shown_classes_only


def test_many_classes_of_more_are_drawn_as_a_whole():
    sampling = sampling_of(samples([at % 25 for at in range(100)]), 1000)
    assert sampling.unit == "class"
    assert "25 of the model's 1000 classes, which are drawn as a whole" in sampling.words
    clusters = sampling.clusters([f"s{at:04d}" for at in range(100)])
    assert clusters.tolist() == [at % 25 for at in range(100)]
    # How many classes the model knows is not in the oldest records.
    assert sampling_of(samples([at % 25 for at in range(100)]), None).unit == "class"


def test_groups_are_always_drawn_and_too_few_give_no_verdict():
    labels = [at % 2 for at in range(120)]
    sampling = sampling_of(samples(labels, [f"patient {at % 12}" for at in range(120)]), 2)
    assert (sampling.unit, sampling.too_few) == ("group", False)
    assert sampling.words.startswith("images come in 12 groups, which are drawn as a whole")
    few = sampling_of(samples(labels, [f"patient {at % 9}" for at in range(120)]), 2)
    assert few.too_few
    assert certainty(120, few).words == f"9 groups are too few for a verdict, which needs at least {MINIMUM_GROUPS}"
    assert not certainty(120, few).enough
    # A sample without a group stands for itself.
    some = sampling_of(samples(labels, [f"patient {at}" if at < 10 else None for at in range(120)]), 2)
    assert len(set(some.cluster_of.values())) == 120
    beside = sampling_of(samples([at % 5 for at in range(120)], [f"p{at % 12}" for at in range(120)]), 1000)
    assert beside.words.endswith("images show 5 of the model's 1000 classes, and verdicts are about these")


def test_a_run_without_labels_and_groups_says_so():
    sampling = sampling_of(samples([None] * 40), 1000)
    assert (sampling.unit, sampling.shown_classes_only) == ("image", False)
    assert sampling.words == "neither classes nor groups of the images are known, so each counts as drawn by itself"


# How clusters are drawn --------------------------------------------------------------------------------------------------


def test_one_image_per_cluster_changes_nothing():
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(40, 5))
    values[rng.random(values.shape) < 0.1] = math.nan
    alone = np.arange(40)
    for by_image, by_cluster in zip(simultaneous(values), simultaneous(values, clusters=alone), strict=True):
        np.testing.assert_array_equal(by_image, by_cluster)
    for by_image, by_cluster in zip(interval_of_mean(values), interval_of_mean(values, clusters=alone), strict=True):
        np.testing.assert_array_equal(by_image, by_cluster)


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (1, 3, 2, 4)])
def test_whole_clusters_are_drawn_by_brute_force(sizes):
    rng = np.random.default_rng(1)
    of = np.repeat(np.arange(4), sizes)
    values = rng.lognormal(size=len(of)) + 3 * of
    mean, parts = values.mean(), [values[of == cluster] - values.mean() for cluster in range(4)]

    def error(drawn, centre, total):
        return math.sqrt(
            sum((cluster.sum() - centre * len(cluster)) ** 2 for cluster in drawn) * 4 / 3 / sum(map(len, drawn)) / total
        )

    whole = error(parts, 0.0, len(of))
    strays = []
    for drawn in itertools.product(parts, repeat=4):
        stray = np.concatenate(drawn).mean()
        strays.append(stray / max(error(drawn, stray, len(of)), 0.1 * whole))
    intervals = simultaneous(values[:, None], level=0.8, resamples=100_000, clusters=of)
    assert intervals.mean[0] == pytest.approx(mean)
    assert intervals.error[0] == pytest.approx(whole)
    assert (intervals.n[0], intervals.clusters[0]) == (len(of), 4)
    least = student_quantile(0.9, 3)
    assert intervals.low[0] == pytest.approx(mean - max(np.quantile(strays, 0.9), least) * whole, rel=0.01)
    assert intervals.high[0] == pytest.approx(mean + max(-np.quantile(strays, 0.1), least) * whole, rel=0.01)


def test_clusters_that_balance_out_have_no_smaller_error_than_images():
    values = np.tile([-1.0, 1.0], 30) + 0.1 * np.arange(60) / 60
    balanced = simultaneous(values[:, None], clusters=np.repeat(np.arange(30), 2))
    assert balanced.error[0] == pytest.approx(simultaneous(values[:, None]).error[0])


def test_means_of_clustered_scores_have_wider_intervals():
    own, _, of = in_classes(np.random.default_rng(0), 20, 10, 1, 1, alike=0.5)
    scores = long({("a", "m"): list(own[:, 0])})
    drawn = sampling_of(samples(of.tolist()), 1000)
    wide = summarise(scores, [method("a")], [metric()], sampling=drawn).iloc[0]
    narrow = summarise(scores, [method("a")], [metric()]).iloc[0]
    assert wide["mean"] == narrow["mean"]
    assert wide["high"] - wide["low"] > 1.8 * (narrow["high"] - narrow["low"])


# Verdicts ----------------------------------------------------------------------------------------------------------------


def judged(labels, groups=None, classes=1000, effect=3.0, by=None):
    rng = np.random.default_rng(3)
    by = by or metric()
    columns = {"a": effect + rng.normal(size=len(labels)), "random": rng.normal(size=len(labels))}
    scores = long({(name, by.label): list(values) for name, values in columns.items()})
    drawn = sampling_of(samples(labels, groups), classes)
    return judge(scores, [method("a"), method("random", True)], [by], sampling=drawn)[0]


def test_the_rule_of_a_verdict_says_what_it_is_about():
    few, many = judged([at % 5 for at in range(100)]), judged([at % 25 for at in range(100)])
    assert few.verdict == many.verdict == "pass"
    assert few.rule.endswith("Images show 5 of the model's 1000 classes, fewer than 20: verdicts are about these classes "
                             "only, not about others.")  # fmt: skip
    assert few.against[0].clusters is None
    assert many.against[0].clusters == many.against[0].units == 25
    assert many.unit == "class"


def test_few_groups_get_no_verdict_however_many_images():
    groups = [f"patient {at % 9}" for at in range(300)]
    judgement = judged([0] * 300, groups)
    assert (judgement.verdict, judgement.reason) == ("not counted", "too few groups for a verdict")
    by = axiom(10.0)
    assert judged([0] * 300, groups, by=by, effect=0.0).reason == "too few groups for a verdict"
    groups = [f"patient {at % 12}" for at in range(300)]
    assert judged([0] * 300, groups).verdict == "pass"


def test_advice_asks_for_further_groups():
    judgement = judged([0] * 100, [f"patient {at % 20}" for at in range(100)], effect=0.3)
    assert judgement.verdict == "inconclusive"
    assert judgement.advice.endswith("of further groups would settle it")


# How often they are wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [(1, 1), (8, 4)])
def test_false_passes_are_rare_where_classes_are_drawn(family):
    assert verdict_limits.class_rates(20, 10, family, 40, whole=True, these=False) <= 4 / 40


def test_drawing_single_images_gives_too_many_false_passes_for_other_classes():
    assert verdict_limits.class_rates(5, 20, (8, 4), 20, whole=False, these=False) > 0.15
    # Of the five classes themselves the promise holds.
    assert verdict_limits.class_rates(5, 20, (8, 4), 20, whole=False, these=True) <= 3 / 20


def test_false_passes_are_rare_from_the_least_number_of_groups_on():
    assert verdict_limits.class_rates(MINIMUM_GROUPS, 8, (1, 1), 60, whole=True, these=False) <= 5 / 60


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("classes", "each"), [(5, 6), (5, 60), (10, 20)])
@pytest.mark.parametrize("family", [(1, 1), (8, 4)])
def test_few_classes_keep_the_promise_about_themselves_in_many_draws(classes, each, family):
    assert verdict_limits.class_rates(classes, each, family, 1000, whole=False, these=True) <= 0.05


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("classes", "each"), [(10, 8), (20, 6), (20, 40), (50, 6)])
@pytest.mark.parametrize("family", [(1, 1), (8, 4)])
def test_drawn_classes_keep_the_promise_in_many_draws(classes, each, family):
    assert verdict_limits.class_rates(classes, each, family, 1000, whole=True, these=False) <= 0.05
