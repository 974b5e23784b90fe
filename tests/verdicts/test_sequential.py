"""Looks at a run that stops where verdicts are settled: what each look may err, what stays settled, and what stops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.verdicts.scored import axiom, long, method, metric

from snellen.errors import SnellenError
from snellen.runs.record import Spec
from snellen.runs.schedule import Until
from snellen.verdicts.rule import Looked, against_controls, decide_verdict, judge
from snellen.verdicts.run_looks import take_looks
from snellen.verdicts.sampling import IMAGES
from snellen.verdicts.sequential import EARLY_ERROR, Looks, MetricLooks, MetricScores

SETTLED = Until()


def looks_at(by, own, rivals, sizes, *, until=SETTLED, clusters=None, unit="image"):
    """The looks at scores that are all there, and how many images each method and control was needed for."""
    names, controls = [f"m{at}" for at in range(own.shape[1])], [f"c{at}" for at in range(rivals.shape[1])]
    test = MetricLooks(by, methods=names, controls=controls, looks=Looks(sizes), until=until, unit=unit)
    needed = dict.fromkeys([*names, *controls], 0)
    scores = MetricScores(
        methods=own, controls=rivals, method_done=np.ones(own.shape, bool), control_done=np.ones(rivals.shape, bool),
        place=np.arange(len(own)), clusters=clusters,
    )  # fmt: skip
    while (size := test.next_size) is not None:
        needed |= dict.fromkeys(test.needs(), size)
        assert test.look(scores)
    return test, needed


def verdicts(result: Looked):
    return [decide_verdict(against)[0] for against in result.differences]


# What a look may err ---------------------------------------------------------------------------------------------------


def test_looks_come_after_whole_shards_each_a_quarter_more_and_at_last_after_all():
    assert Looks.plan(500, shard=16).sizes == (32, 48, 64, 80, 112, 144, 192, 240, 304, 384, 480, 500)
    assert Looks.plan(30).sizes == (30,)
    assert Looks.plan(31).sizes == (30, 31)
    assert Looks.plan(12, shard=16).sizes == (12,)


def test_the_looks_before_the_last_share_four_per_cent_and_the_last_has_the_level_of_a_whole_run():
    looks = Looks((30, 38, 48, 60, 75, 94, 118, 148, 185, 231, 250))
    spent = [1 - looks.level(number) for number in range(11)]
    assert spent == pytest.approx([0.004] * 10 + [0.02])  # by hand
    assert sum(spent[:-1]) == pytest.approx(EARLY_ERROR)
    assert looks.resamples(0) == looks.resamples(10) == 5_000
    assert 1 - Looks((30, 38)).level(0) == pytest.approx(0.005)  # never more at once
    many = Looks.plan(500, shard=16)
    assert 1 - many.level(3) == pytest.approx(0.04 / 11)
    assert many.resamples(3) == 5_500  # ten draws beyond either end: 20 / (0.04 / 11)


def test_with_a_single_look_the_verdicts_are_those_of_a_whole_run_to_the_last_bit():
    rng = np.random.default_rng(0)
    own, rivals = rng.normal([0.0, 1.0, 2.0], size=(36, 3)), rng.normal(size=(36, 2))
    test, needed = looks_at(metric(), own, rivals, (36,))
    assert list(test.result().differences) == against_controls(own, rivals, ["c0", "c1"])
    assert set(needed.values()) == {36}


def test_judging_by_a_single_look_gives_the_judgements_of_a_whole_run():
    rng = np.random.default_rng(1)
    methods = [method("a"), method("b"), method("c", control=True)]
    tests = [metric("m"), axiom(tolerance=0.5)]
    scores = long({(name.label, by.label): np.abs(rng.normal(size=30)) for name in methods for by in tests})
    spec = Spec(methods=tuple(methods), metrics=tuple(tests), target="predicted", seed=0, shard=16, precision="float32")
    looked = take_looks(spec, sorted(set(scores["sample"])), IMAGES, scores, {})
    by_looks, whole = judge(scores, methods, tests, looked=looked), judge(scores, methods, tests)
    assert [dataclasses.replace(each, rule="") for each in by_looks] == [
        dataclasses.replace(each, rule="") for each in whole
    ]
    assert all("Looked at after 30 of 30 images." in each.rule for each in by_looks)


# What stops ------------------------------------------------------------------------------------------------------------


def test_what_the_first_look_settles_is_needed_no_more_and_later_scores_do_not_change_it():
    rng = np.random.default_rng(2)
    own, rivals = rng.normal(size=(100, 2)) + 9, rng.normal(size=(100, 2))
    bounded = metric(bounds=(-9.0, 20.0))
    test, needed = looks_at(bounded, own, rivals, (30, 45, 100))
    assert set(needed.values()) == {30}
    assert [test.state(name) for name in ("m0", "m1")] == ["settled", "settled"]
    assert verdicts(test.result()) == ["pass", "pass"]
    own[30:] = -9
    again, _ = looks_at(bounded, own, rivals, (30, 45, 100))
    assert again.result() == test.result()


def test_a_method_that_fails_stops_and_a_control_goes_on_only_for_methods_that_are_open():
    rng = np.random.default_rng(3)
    own = rng.normal([-9.0, 0.5], size=(200, 2))  # the first is worse than all
    rivals = rng.normal([0.0, -9.0], size=(200, 2))  # the second control is beaten by the second method at once
    _, needed = looks_at(metric(bounds=(-40.0, 40.0)), own, rivals, (30, 60, 200))
    assert needed["m0"] == needed["c1"] == 30
    assert needed["m1"] == needed["c0"] > 30


def test_what_a_method_has_won_no_longer_widens_the_others_but_what_it_lost_does():
    rng = np.random.default_rng(4)
    first, rivals = rng.normal(0.5, size=(60, 1)), rng.normal(size=(60, 1))

    def width(others=()):
        own = np.concatenate([first, *(rng.normal(mean, size=(60, 1)) for mean in others)], axis=1)
        names = [f"m{at}" for at in range(own.shape[1])]
        bounded = metric(bounds=(-40.0, 40.0))
        test = MetricLooks(bounded, methods=names, controls=["c"], looks=Looks((30, 45, 300)), until=SETTLED)
        done = np.ones(own.shape, bool), np.ones(rivals.shape, bool)
        scores = MetricScores(methods=own, controls=rivals, method_done=done[0], control_done=done[1], place=np.arange(60))
        assert test.look(scores)
        assert test.needs() == ("m0", "c")
        assert test.look(scores)
        (pair,) = test.result().differences[0]
        assert pair.n == 45
        return pair.high - pair.low

    assert width([9.0] * 7) == pytest.approx(width(), rel=1e-6)
    assert width([-9.0]) > 1.02 * width()


def test_what_stopped_early_widens_the_last_intervals_no_more_than_with_all_its_images():
    """The far ends of 30 images, drawn again and again, are longer than those of 300."""
    rng = np.random.default_rng(16)
    sure = 9 + rng.lognormal(size=(300, 7)) - np.exp(0.5)
    own, rivals = np.concatenate([rng.normal(0.5, size=(300, 1)), sure], axis=1), rng.normal(size=(300, 1))
    test, needed = looks_at(metric(bounds=(-40.0, 40.0)), own, rivals, (30, 300))
    assert needed == {"m0": 300, "c0": 300} | {f"m{at}": 30 for at in range(1, 8)}
    looked, whole = test.result().differences[0][0], against_controls(own, rivals, ["c0"])[0][0]
    assert (looked.mean, looked.n) == (whole.mean, whole.n)
    assert looked.high - looked.low == pytest.approx(whole.high - whole.low, rel=0.02)
    only = np.ones((300, 8, 1), dtype=bool)
    only[30:, 1:] = False
    masked = against_controls(own, rivals, ["c0"], counted=only)[0][0]
    assert masked.high - masked.low > 1.05 * (whole.high - whole.low)


def test_controls_that_can_no_longer_change_a_verdict_are_needed_no_more():
    """The method is surely no better than the first control, so whether it beats the second does not matter."""
    rng = np.random.default_rng(13)
    shared = rng.normal(size=(400, 1))  # an easy image is easy for the method and for the first control
    own = shared - 0.1 + 0.3 * rng.normal(size=(400, 1))
    rivals = np.concatenate([shared + 0.3 * rng.normal(size=(400, 1)), rng.normal(-0.6, size=(400, 1))], axis=1)
    test, needed = looks_at(metric(bounds=(-40.0, 40.0)), own, rivals, (30, 60, 100, 200, 400))
    assert verdicts(test.result()) == ["fail"]
    assert needed["c1"] < needed["c0"] == needed["m0"]


def test_a_test_stops_where_the_images_left_would_settle_less_than_half_a_verdict_of_all_its_methods():
    rng = np.random.default_rng(14)
    first, rivals = rng.normal(0.5, size=(100, 1)), rng.normal(size=(100, 1))
    bounded = metric(bounds=(-40.0, 40.0))
    _, needed = looks_at(bounded, first, rivals, (30, 100))
    assert 0.1 < alone_chance(bounded, first, rivals) < 0.5
    assert needed["m0"] == 100  # a tenth of a verdict is worth its images in a test of one method
    sure = rng.normal(9.0, size=(100, 7))
    test, needed = looks_at(bounded, np.concatenate([first, sure], axis=1), rivals, (30, 100))
    assert needed["m0"] == 30
    assert verdicts(test.result()) == ["inconclusive"] + ["pass"] * 7


def alone_chance(by, own, rivals):
    test = MetricLooks(by, methods=["m"], controls=["c"], looks=Looks((30, 100)), until=SETTLED)
    done = np.ones(own.shape, bool)
    test.look(MetricScores(methods=own, controls=rivals, method_done=done, control_done=done, place=np.arange(100)))
    return test.expected()


def test_a_comparison_that_the_images_left_will_hardly_settle_stops_undecided():
    rng = np.random.default_rng(5)
    first = rng.normal(size=(60, 1))
    own, rivals = first + 0.2 * rng.normal(size=(60, 1)), rng.normal(size=(60, 1)) * 4
    test, needed = looks_at(metric(), own - own.mean() + rivals.mean(), rivals, (30, 45, 60))
    assert verdicts(test.result()) == ["inconclusive"]
    assert test.state("m0") == "hopeless"
    assert needed["m0"] < 60


def test_a_pass_that_unseen_failures_could_undo_waits_for_more_images():
    own, rivals = np.ones((300, 1)), np.zeros((300, 1))
    own[::2] = 1.1  # never far below, on a metric that can fall to -100
    test, needed = looks_at(metric(bounds=(-100.0, 2.0)), own, rivals, (30, 100, 300))
    assert needed["m0"] == 300
    assert verdicts(test.result()) == ["pass"]
    _, needed = looks_at(metric(bounds=(0.0, 2.0)), own, rivals, (30, 100, 300))
    assert needed["m0"] == 30


def test_a_metric_that_a_control_wins_outright_stops_as_soon_as_that_is_clear():
    rng = np.random.default_rng(6)
    own, rivals = rng.normal(size=(200, 3)), rng.normal([9.0, 0.0], size=(200, 2))
    test, needed = looks_at(metric(), own, rivals, (30, 60, 200))
    assert test.result().outright
    assert set(needed.values()) == {30}


def test_a_metric_goes_on_while_more_images_may_show_a_control_among_its_top_two():
    """The control is better on 19 of 20 images; on the others the methods are so much better that their means are close."""
    rng = np.random.default_rng(15)

    def scores(gain):
        own = np.where(np.arange(200)[:, None] % 20 == 0, gain, -1.0) + 0.01 * rng.normal(size=(200, 3))
        return own, np.zeros((200, 1))

    test, needed = looks_at(metric(), *scores(19.0), (40, 80, 200))  # means of about 0
    assert set(needed.values()) == {200}
    test, needed = looks_at(metric(), *scores(-1.0), (40, 80, 200))
    assert test.result().outright
    assert set(needed.values()) == {40}


def test_axioms_need_no_controls_after_the_first_look():
    rng = np.random.default_rng(7)
    gaps = np.abs(rng.normal(size=(100, 2))) * [0.001, 0.012]
    test, needed = looks_at(axiom(tolerance=0.01), -gaps, np.zeros((100, 1)), (30, 60, 100))
    assert needed["m0"] == needed["c0"] == 30
    assert needed["m1"] > 30
    assert test.state("m0") == "settled"


def test_a_control_that_the_metric_cannot_score_is_not_waited_for():
    rng = np.random.default_rng(8)
    own, rivals = rng.normal(size=(90, 1)) + 9, np.stack([rng.normal(size=90), np.full(90, np.nan)], axis=1)
    test = MetricLooks(
        metric(bounds=(-40.0, 40.0)), methods=["m"], controls=["c", "refused"], looks=Looks((30, 90)), until=Until()
    )
    done = np.ones((90, 1), bool)
    scores = MetricScores(
        methods=own, controls=rivals, method_done=done, control_done=np.ones((90, 2), bool), place=np.arange(90),
        absent=frozenset({"refused"}),
    )  # fmt: skip
    assert test.look(scores)
    assert test.needs() == ()
    assert verdicts(test.result()) == ["pass"] or test.result().differences[0][1].n == 0


def test_a_look_waits_for_its_scores():
    rng = np.random.default_rng(9)
    own, rivals = rng.normal(size=(29, 1)) + 9, rng.normal(size=(29, 1))
    test = MetricLooks(metric(), methods=["m"], controls=["c"], looks=Looks((30, 90)), until=Until())
    done = np.ones((29, 1), bool)
    assert not test.look(
        MetricScores(methods=own, controls=rivals, method_done=done, control_done=done, place=np.arange(29))
    )
    assert decide_verdict(test.result().differences[0])[1] == "too few images for a verdict"


# At a precision ----------------------------------------------------------------------------------------------------------


def test_a_precision_is_half_the_width_of_the_interval_in_standard_deviations():
    rng = np.random.default_rng(10)
    own, rivals = rng.normal(size=(2000, 1)) + 3, rng.normal(size=(2000, 1))
    sizes = Looks.plan(2000).sizes
    test, needed = looks_at(metric(), own, rivals, sizes, until=Until(0.4))
    (pair,) = test.result().differences[0]
    assert (pair.high - pair.low) / 2 <= 0.4
    # Of independent scores: reach * sqrt(2 / n) = 0.4 with a reach of about 3.2 needs about 128 images.
    assert 100 < needed["m0"] < 350


@pytest.mark.parametrize("text", ["", "soon", "precision", "precision 0", "precision -1", "precision nan", "precision inf"])
def test_until_is_settled_or_a_precision(text):
    with pytest.raises(SnellenError, match=r"until is 'settled' or 'precision'.*not '"):
        Until.parse(text)


# How often a pass is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_taking_every_look_keeps_false_passes_below_one_in_twenty():
    """Scores whose long tail points to the bad side, beside a constant control, are the hardest of the simulated ones."""
    rng, wrong, draws = np.random.default_rng(11), 0, 200
    for _ in range(draws):
        own = -(rng.lognormal(size=(102, 1)) - np.exp(0.5))
        test, _ = looks_at(metric(), own, np.zeros((102, 1)), Looks.plan(102).sizes)
        wrong += verdicts(test.result()) == ["pass"]
    # Five per cent of 200 are 10; 18 would be beyond them by more than chance (1 in 100).
    assert wrong < 18
