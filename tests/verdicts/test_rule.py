"""Every branch of the rule, by scores written down by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.verdicts.scored import axiom, long, method, metric

from snellen.verdicts import MINIMUM_IMAGES, judge, summarise
from snellen.verdicts.intervals import simultaneous
from snellen.verdicts.paired_difference import PairedDifference, further_images
from snellen.verdicts.rule import MARGIN, control_win_share
from snellen.verdicts.statistics import LEVEL

IMAGES = 60
EVEN = np.tile([-1.0, 1.0], IMAGES // 2)
"""Scores of mean 0; their standard deviation over 60 images is a little more than 1."""
SLOW = np.repeat([-1.0, 1.0], IMAGES // 2)
"""The same scores in another order, so that differences to them have a spread."""


def judged(columns, controls=("random", "edge"), by=None, spoil=None):
    by = by or metric()
    methods = [method(name, name in controls) for name in columns]
    scores = long({(name, by.label): list(values) for name, values in columns.items()})
    return {judgement.method: judgement for judgement in judge(scores if spoil is None else spoil(scores), methods, [by])}


def test_better_than_every_control_passes():
    judgement = judged({"a": EVEN + 2, "b": EVEN - 3, "random": SLOW, "edge": SLOW - 1})["a"]
    assert (judgement.verdict, judgement.reason, judgement.advice) == ("pass", "better than every control", "")
    assert [difference.control for difference in judgement.against] == ["random", "edge"]
    assert all(difference.better and not difference.alike and not difference.worse for difference in judgement.against)
    # By hand: pooled deviation √(60/59), differences in {-2, 0, 0, 2} about their mean.
    first = judgement.against[0]
    assert first.mean == pytest.approx(2)
    assert first.margin == pytest.approx(MARGIN * math.sqrt(60 / 59))
    assert first.spread == pytest.approx(math.sqrt(2 * 60 / 59))
    assert 0 < first.low < 2 < first.high
    assert first.n == judgement.n == IMAGES
    assert f"{LEVEL:.0%}" in judgement.rule
    assert f"margin {MARGIN:g} standard deviations" in judgement.rule


def test_lower_is_better_reverses_the_rule():
    columns = {"a": EVEN - 2, "b": EVEN + 3, "random": SLOW, "edge": SLOW + 1}
    judgements = judged(columns, by=metric(higher=False))
    assert judgements["a"].verdict == "pass"
    assert judgements["b"].verdict == "fail"
    assert judgements["a"].against[0].mean == pytest.approx(2)
    assert judgements["a"].mean == pytest.approx(-2)


def test_worse_than_one_control_fails_however_much_better_than_others():
    judgements = judged({"a": EVEN + 2, "b": EVEN + 9, "c": EVEN + 8, "random": SLOW, "edge": SLOW + 4})
    assert (judgements["a"].verdict, judgements["a"].reason) == ("fail", "worse than edge")
    assert judgements["b"].verdict == "pass"


@pytest.mark.parametrize("gap", [0.0, -0.05, 0.05, 0.15])
def test_alike_within_the_margin_fails_also_when_surely_but_slightly_better(gap):
    judgement = judged({"a": EVEN + gap, "good": EVEN + 5, "fine": EVEN + 4, "random": EVEN})["a"]
    assert judgement.verdict == "fail"
    # The paired difference never varies, so its interval has no width.
    assert judgement.against[0].low == pytest.approx(gap)
    assert judgement.against[0].better == (gap > 0)
    assert judgement.against[0].alike
    assert judgement.reason == ("worse than random" if gap < 0 else "no better than random, within the margin")


def test_just_beyond_the_margin_passes():
    margin = MARGIN * math.sqrt(60 / 59)
    assert judged({"a": EVEN + margin * 1.001, "b": EVEN + 4, "random": EVEN})["a"].verdict == "pass"
    assert judged({"a": EVEN + margin * 0.999, "b": EVEN + 4, "random": EVEN})["a"].verdict == "fail"


def test_in_between_is_inconclusive_with_advice():
    judgement = judged({"a": EVEN + 0.4, "b": EVEN + 4, "random": SLOW, "edge": SLOW - 3})["a"]
    assert (judgement.verdict, judgement.reason) == ("inconclusive", "not clear of random")
    assert judgement.more is not None
    assert judgement.advice == f"about {judgement.more} more images would settle it"


def test_rounding_of_single_precision_is_no_difference():
    columns = {"a": np.full(IMAGES, 1.0), "b": EVEN + 3, "c": EVEN + 4, "random": np.full(IMAGES, 1 - 6e-8)}
    assert judged(columns)["a"].reason == "no better than random, within the margin"
    columns["random"] = np.full(IMAGES, 0.99)
    assert judged(columns)["a"].verdict == "pass"


def test_too_few_images_are_not_counted_also_when_only_pairs_are_few():
    few = {"a": EVEN[:29] + 9, "random": SLOW[:29]}
    assert judged(few)["a"].verdict == "not counted"
    assert judged(few)["a"].reason == "too few images for a verdict"
    # 59 scores each, but only 29 images on which both are defined.
    own, rival = EVEN + 9, SLOW.copy()
    own[:15], rival[-16:] = math.nan, math.nan
    judgement = judged({"a": own, "random": rival})["a"]
    assert (judgement.n, judgement.undefined, judgement.against[0].n) == (45, 15, 29)
    assert judgement.reason == "too few images for a verdict"


def test_a_method_with_few_values_does_not_widen_the_others():
    own = {"a": EVEN + 2, "random": SLOW}
    sparse = np.full(IMAGES, math.nan)
    sparse[:4] = [0.0, 50.0, 51.0, 52.0]
    alone, beside = judged(own)["a"], judged(own | {"z": sparse})
    assert beside["a"].against == alone.against
    assert beside["z"].verdict == "not counted"
    assert math.isfinite(beside["z"].against[0].low)


def test_methods_that_almost_always_hit_do_not_widen_the_others():
    """In some draws of the images their few misses are absent, and they seem infinitely sure."""
    rng = np.random.default_rng(0)
    shares = {"a": 0.6, "b": 0.65, "c": 0.6, "random": 0.1, "edge": 0.1}
    columns = {name: (rng.random(64) < share).astype(float) for name, share in shares.items()}
    sure = {f"sure {at}": np.where(np.arange(64) == at, 0.0, 1.0) for at in (3, 20, 40)}
    alone, beside = judged(columns), judged(columns | sure)
    assert [judgement.verdict for judgement in alone.values()] == ["pass"] * 3
    assert [judgement.verdict for judgement in beside.values()] == ["pass"] * 6
    for name in alone:
        for judgement, other in zip(alone[name].against, beside[name].against, strict=True):
            assert other.mean - other.low < 1.5 * (judgement.mean - judgement.low)


@pytest.mark.parametrize("values", [[math.nan] * IMAGES, None])
def test_undefined_and_not_run_are_not_counted(values):
    drop = (lambda scores: scores[scores["method"] != "a"]) if values is None else None
    judgement = judged({"a": values or EVEN, "b": EVEN, "random": SLOW}, spoil=drop)["a"]
    assert (judgement.verdict, judgement.reason) == ("not counted", "not run" if values is None else "undefined")


def test_without_controls_nothing_is_counted():
    judgement = judged({"a": EVEN, "b": EVEN})["a"]
    assert (judgement.verdict, judgement.reason, judgement.against) == ("not counted", "nothing to compare with", ())
    assert judged({"a": EVEN, "random": [math.nan] * IMAGES})["a"].reason == "nothing to compare with"


def test_a_metric_that_a_control_wins_outright_is_not_counted_and_the_reason_has_the_verdict():
    judgements = judged({"a": EVEN + 2, "b": EVEN, "random": SLOW + 9, "edge": SLOW + 8})
    assert judgements["a"].verdict == "not counted"
    assert judgements["a"].reason == "fooled by random, edge, which win against nearly every map; otherwise fail"
    # Second of three is among the top two, so the metric is fooled, but not outright.
    judgements = judged({"a": EVEN + 4, "b": EVEN - 4, "random": SLOW})
    assert (judgements["a"].verdict, judgements["b"].verdict) == ("pass", "fail")


@pytest.mark.parametrize(
    ("gaps", "verdict", "reason"),
    [
        ([0.0, 0.002], "pass", "within 0.01 of 0: at most "),
        ([0.0], "pass", "within 0.01 of 0: at most 0"),
        ([1e-8, 3e-8], "pass", "within 0.01 of 0: less than 0.0001"),
        ([0.02, 0.3], "fail", "farther than 0.01 from 0: at least "),
        ([0.0, 0.02], "inconclusive", "not clear of 0.01 from 0: between "),
        # A long tail: the lower end would lie below the best value, which is no distance from it.
        ([0.0] * 58 + [0.5, 0.0], "inconclusive", "not clear of 0.01 from 0: between 0 and "),
    ],
)
def test_an_axiom_passes_within_its_tolerance_whatever_controls_do(gaps, verdict, reason):
    columns = {"own": [gaps[at % len(gaps)] for at in range(IMAGES)], "random": [0.0] * IMAGES}
    judgement = judged(columns, by=axiom())["own"]
    assert judgement.verdict == verdict
    assert judgement.reason.startswith(reason)
    assert "tolerance" in judgement.rule
    few = {name: values[: MINIMUM_IMAGES - 1] for name, values in columns.items()}
    assert judged(few, by=axiom())["own"].reason == "too few images for a verdict"


def test_an_axiom_whose_best_value_is_the_largest():
    by = metric("same", tolerance=0.1, bounds=(0.0, 1.0))
    judgements = judged({"a": [0.95, 1.0] * 30, "b": [0.5, 0.6] * 30}, by=by)
    assert judgements["a"].verdict == "pass"
    assert judgements["b"].verdict == "fail"


def test_advice_for_an_axiom():
    mean, spread = 0.013, 0.01 * math.sqrt(60 / 59)
    judgement = judged({"a": mean + 0.01 * EVEN}, by=axiom())["a"]
    assert judgement.verdict == "inconclusive"
    near = (spread * (2.326 + 0.842) / 0.003) ** 2 - IMAGES
    assert judgement.more == pytest.approx(near, rel=0.15)
    assert judged({"a": 0.01 + 0.01 * EVEN}, by=axiom())["a"].advice == "more images will hardly settle it"


def test_a_precomputed_summary_gives_the_same_verdicts():
    rng = np.random.default_rng(0)
    columns = {(name, "m"): list(rng.normal(size=IMAGES)) for name in ("a", "b", "random")}
    methods = [method("a"), method("b"), method("random", True)]
    scores = long(columns)
    summary = summarise(scores, methods, [metric()], seed=3)
    assert judge(scores, methods, [metric()], seed=3, summary=summary) == judge(scores, methods, [metric()], seed=3)


def test_order_of_rows_changes_no_verdict():
    rng = np.random.default_rng(0)
    scores = long({(name, "m"): list(rng.normal(size=IMAGES)) for name in ("a", "b", "random")})
    methods = [method("a"), method("b"), method("random", True)]
    whole = judge(scores, methods, [metric()])
    assert judge(scores.sample(frac=1, random_state=1), methods, [metric()]) == whole
    assert judge(scores, methods, [metric()], seed=1) != whole


def differences(scores, methods, metrics):
    """How much better than each control a method is, by method and metric."""
    judgements = judge(scores, methods, metrics)
    return {(judgement.method, judgement.metric): judgement.against for judgement in judgements if judgement.against}


@pytest.mark.parametrize(("higher", "sign"), [(True, 1), (False, -1)])
def test_a_positive_difference_is_better_than_the_control_whichever_way_the_metric_points(higher, sign):
    nan = float("nan")
    scores = long({("a", "m"): [0.6, 0.7, 0.9, nan], ("r", "m"): [0.5, 0.4, nan, 0.1], ("e", "m"): [0.6, 0.7, 0.9, 0.2]})
    pairs = differences(scores, [method("a"), method("r", True), method("e", True)], [metric(higher=higher)])
    assert list(pairs) == [("a", "m")]
    random, edge = pairs[("a", "m")]
    assert random.mean == pytest.approx(sign * 0.2)
    assert random.n == 2
    assert (edge.mean, edge.low, edge.high, edge.n) == (0, 0, 0, 3)
    assert differences(scores, [method("a")], [metric()]) == {}


def test_pairing_removes_what_images_share():
    rng = np.random.default_rng(2)
    hard = rng.normal(0, 10, 40)
    scores = long({("a", "m"): list(hard + 0.5 + rng.normal(0, 0.1, 40)), ("r", "m"): list(hard)})
    (pair,) = differences(scores, [method("a"), method("r", True)], [metric()])[("a", "m")]
    assert 0.4 < pair.low < pair.high < 0.6


# Intervals that hold together --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 12])
def test_intervals_hold_together_as_often_as_they_promise(columns):
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        values = rng.normal(size=(40, 1)) + rng.normal(size=(40, columns))
        _, low, high, *_ = simultaneous(values, level=0.9, resamples=500)
        held += bool((low < 0).all() and (high > 0).all())
    # 270 ± 3 standard deviations of a binomial draw.
    assert 254 <= held <= 286


def test_one_column_is_a_bootstrap_t_interval_by_brute_force():
    values = np.array([0.0, 1.0, 5.0, 2.0])
    error = values.std(ddof=1) / 2
    strays = []
    for picks in itertools.product(values, repeat=4):
        own = max(np.std(picks) / math.sqrt(3), 0.1 * error)
        strays.append((np.mean(picks) - 2.0) / own)
    mean, low, high, n, *_ = simultaneous(values[:, None], level=0.8, resamples=100_000)
    assert (mean[0], n[0]) == (2.0, 4)
    # The tail is upwards: draws stray less far above than Student's t with three degrees of freedom, and farther below.
    assert np.quantile(strays, 0.9) < 1.638 < np.quantile(np.negative(strays), 0.9)
    assert low[0] == pytest.approx(2.0 - 1.638 * error, abs=0.02)
    assert high[0] == pytest.approx(2.0 + np.quantile(np.negative(strays), 0.9) * error, abs=0.02)


def test_further_columns_widen_an_interval_unless_they_have_no_spread():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 8))
    _, low, high, *_ = simultaneous(values)
    _, alone_low, alone_high, *_ = simultaneous(values[:, :1])
    assert low[0] < alone_low[0] < alone_high[0] < high[0]
    still = np.concatenate([values[:, :1], np.full((50, 3), 0.1), np.zeros((50, 1))], axis=1)
    mean, low, high, *_ = simultaneous(still)
    assert (low[0], high[0]) == pytest.approx((alone_low[0], alone_high[0]))
    assert (low[1:] == mean[1:]).all()
    assert (high[1:] == mean[1:]).all()


def test_undefined_values_are_left_out_of_their_column():
    values = np.random.default_rng(0).normal(size=(80, 3))
    values[40:, 1] = math.nan
    values[1:, 2] = math.nan
    mean, low, high, n, *_ = simultaneous(values)
    assert n.tolist() == [80, 40, 1]
    assert mean[1] == pytest.approx(values[:40, 1].mean())
    assert low[1] < mean[1] < high[1]
    assert high[1] - low[1] > high[0] - low[0]
    assert math.isnan(low[2])
    assert math.isnan(high[2])
    values[:, 0] = math.nan
    assert math.isnan(simultaneous(values)[0][0])
    assert simultaneous(np.zeros((0, 2)))[3].tolist() == [0, 0]
    assert simultaneous(np.zeros((5, 0)))[0].shape == (0,)


def test_control_win_share_by_hand():
    nan = math.nan
    own = np.array([[1.0, 5.0], [2.0, nan], [3.0, 5.0]])
    # The second control has the better mean, 3; it is at least as good in 2 ≥ 1, 4 ≥ 2, 3 ≥ 3 of 5 pairs.
    rivals = np.array([[0.0, 2.0, nan], [0.0, 4.0, nan], [9.0, 3.0, nan]])
    rivals[2, 0] = 0.0
    assert control_win_share(own, rivals) == pytest.approx(3 / 5)
    assert math.isnan(control_win_share(own, rivals[:, 2:]))
    assert math.isnan(control_win_share(own, rivals[:, :0]))
    assert math.isnan(control_win_share(np.full((3, 1), nan), rivals))


# Advice ------------------------------------------------------------------------------------------------------------------


def pair(mean, n=64, margin=0.2, spread=1.0, reach=2.5):
    error = spread / math.sqrt(n)
    return PairedDifference("random", mean, mean - reach * error, mean + reach * error, margin, spread, n)


def test_advice_by_hand():
    # (2.5 + 0.8416) / 0.3 standard errors: 124.07 images, 64 are there.
    assert further_images([pair(0.3)]) == 125 - 64
    assert further_images([pair(-0.3)]) == 125 - 64
    # Half of the images define a pair, so twice as many are needed.
    assert further_images([pair(0.3)], 128) == math.ceil(2 * (124.07 - 64))
    # Within the margin of 0.2 takes (2.5 + 1.2816) / 0.2.
    assert further_images([pair(0.0)]) == math.ceil((3.78155 / 0.2) ** 2) - 64
    # A pass takes all controls, a fail only one.
    assert further_images([pair(0.3), pair(2.0)]) == 125 - 64
    assert further_images([pair(-0.3), pair(-0.25)]) == 125 - 64
    assert further_images([pair(0.3), pair(0.3)]) > 125 - 64
    assert further_images([pair(0.2)]) == math.ceil((3.3416 / 0.2) ** 2) - 64
    assert further_images([pair(0.0, margin=0.0)]) is None


@pytest.mark.slow
@pytest.mark.parametrize(("effect", "controls", "n"), [(0.5, 1, 30), (0.5, 3, 30), (0.0, 1, 200), (-0.5, 1, 30)])
def test_the_advised_number_settles_it_in_about_four_of_five(effect, controls, n):
    rng = np.random.default_rng(4)

    def verdict(values):
        columns = {"a": values[:, 0] + effect} | {f"c{at}": values[:, at] for at in range(1, 1 + controls)}
        return judged(columns, controls=tuple(columns)[1:])["a"]

    # The first images show exactly what is true of all: unit spread, no correlation, this effect.
    first = rng.normal(size=(n, 1 + controls))
    exact = np.linalg.qr(first - first.mean(axis=0))[0] * math.sqrt(n - 1)
    undecided = verdict(exact)
    assert undecided.verdict == "inconclusive"
    settled = [verdict(rng.normal(size=(n + undecided.more, 1 + controls))).verdict != "inconclusive" for _ in range(40)]
    assert 0.7 <= np.mean(settled) <= 0.95
