"""Training: streamed, balanced, repeatable, restarted by itself; and robust training that withstands what it was taught."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from tests.textbox.planted_networks import planted
from tests.textbox.tiny import AGAINST, QUICK, TINY
from torch import Tensor, nn

from snellen.errors import SnellenError
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.training import (
    CHECK_SEED,
    TEST_SEED,
    TRAINING_SEED,
    Attack,
    TrainingPlan,
    TrainingResult,
    TrainingStep,
    _batches,
    _labels,
    _weights,
    accuracy,
    is_accurate,
    plan_for,
    to_inputs,
    train,
)


@pytest.fixture(scope="module")
def trained() -> TrainingResult:
    return train(TINY, QUICK)


def test_a_rule_is_learnt_and_the_steps_are_kept(trained: TrainingResult) -> None:
    assert is_accurate(TINY, trained.accuracy)
    assert set(trained.accuracy) == set(TINY.rule.defined)
    assert not trained.module.training
    assert trained.attacked is None
    images = [step.images for step in trained.log if step.attempt == trained.log[-1].attempt]
    assert images == sorted(images)
    assert trained.log[-1].rate < 0.05 * max(step.rate for step in trained.log)  # settled


def test_the_same_seed_gives_the_same_weights_and_another_gives_others(trained: TrainingResult) -> None:
    again, other = train(TINY, QUICK), train(TINY, replace(QUICK, seed=7))
    mine = trained.module.state_dict()
    assert all(torch.equal(mine[name], value) for name, value in again.module.state_dict().items())
    assert not all(torch.equal(mine[name], value) for name, value in other.module.state_dict().items())


def test_every_label_counts_the_same_in_every_batch() -> None:
    spec = NetworkSpec.of_setting("complex-fr")  # three buckets of twelve have the label 1
    made = next(_batches(spec, 256, 0))
    right, weights = _labels(spec)[made.buckets], _weights(spec)[made.buckets]
    assert weights[right == 0].sum() == pytest.approx(float(weights[right == 1].sum()))
    assert weights.mean() == pytest.approx(1.0)
    assert set(made.buckets.tolist()) == set(spec.rule.defined)


def test_undefined_buckets_are_never_shown() -> None:
    spec = NetworkSpec.of_setting("simple-nr")
    assert set(next(_batches(spec, 64, 0)).buckets.tolist()) == {2, 3, 5, 6, 8, 9, 11, 12}


def test_scenes_to_learn_from_watch_and_test_on_differ() -> None:
    training_boxes, watched, tested = (
        TINY.layout.scenes([4] * 200, range(200), seed=seed).boxes for seed in (TRAINING_SEED, CHECK_SEED, TEST_SEED)
    )
    for boxes, other in ((training_boxes, watched), (training_boxes, tested), (watched, tested)):
        assert (boxes == other).flatten(1).all(dim=1).double().mean() < 0.1


def test_two_seeds_do_not_see_the_same_scenes() -> None:
    pixels, other = (next(_batches(TINY, 64, seed)).pixels for seed in (0, 1))
    assert not torch.equal(pixels, other)


def test_giving_up_is_one_sentence_after_all_attempts() -> None:
    steps: list[TrainingStep] = []
    with pytest.raises(SnellenError, match="was not learnt by small-cnn in 3 attempts of up to 256 images") as on_step:
        train(TINY, replace(QUICK, most=256, attempts=3), on_step=steps.append)
    assert sorted({step.attempt for step in steps}) == [1, 2, 3]
    assert all(step.images == 256 for step in steps if step.images > 64)
    assert "\n" not in str(on_step.value)
    assert "more images" in str(on_step.value)


class Stumbling(nn.Module):
    """Weights that are no numbers in its first copy, and good ones in every later copy."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0

    def __deepcopy__(self, memo: object) -> nn.Module:
        self.copies += 1
        made = build_network("small-cnn", classes=2, side=TINY.side, seed=0)
        if self.copies == 1:
            next(made.parameters()).data.fill_(torch.nan)
        return made

    def forward(self, inputs: Tensor) -> Tensor:
        raise AssertionError("only copies are trained")


def test_an_attempt_that_fails_is_followed_by_another() -> None:
    start = Stumbling()
    result = train(TINY, QUICK, start=start)
    assert start.copies == 2
    assert result.log[0].attempt == 1
    assert result.log[-1].attempt == 2
    assert result.seed == 1
    assert is_accurate(TINY, result.accuracy)


def test_accuracy_is_the_share_of_right_scenes_and_leaves_the_network_as_it_was() -> None:
    network = planted("box1", lambda seen: seen["box1"] & ~seen["B"])
    network.module.train()
    shares = accuracy(network.spec, network.module, per_bucket=5)
    assert network.module.training
    assert {bucket for bucket, share in shares.items() if share == 0} == {9, 12}
    assert all(share in (0, 1) for share in shares.values())


def test_an_attack_stays_near_and_does_harm(trained: TrainingResult) -> None:
    made = TINY.layout.scenes(TINY.rule.defined * 5, range(5 * len(TINY.rule.defined)), seed=9)
    inputs, labels = to_inputs(made), _labels(TINY)[made.buckets]
    attacked = Attack()(trained.module, inputs, labels)
    assert (attacked - inputs).abs().max() <= 0.3 + 1e-6
    assert 0 <= attacked.min() <= attacked.max() <= 1
    assert (trained.module(attacked).argmax(dim=1) == labels).double().mean() <= 0.5
    weak = Attack().weakened(0.1)
    assert (weak(trained.module, inputs, labels) - inputs).abs().max() <= 0.03 + 1e-6
    assert weak.iterations == 1
    assert Attack().weakened(2.0) == Attack()


def test_certainty_is_no_defence(trained: TrainingResult) -> None:
    certain = copy.deepcopy(trained.module)
    certain.head[-1].weight.data *= 1e4  # type: ignore[operator]
    certain.head[-1].bias.data *= 1e4  # type: ignore[operator]
    usual, sure = (accuracy(TINY, module, per_bucket=20, attack=Attack()) for module in (trained.module, certain))
    assert usual == sure
    assert sum(sure.values()) / len(sure) <= 0.5


def test_robust_training_starts_from_the_plain_network_and_withstands_the_attack(trained: TrainingResult) -> None:
    robust = replace(TINY, robust=True)
    before = accuracy(TINY, trained.module, per_bucket=50, attack=AGAINST.attack)
    result = train(robust, AGAINST, start=trained.module)
    assert result.log[0].mean > 0.95  # it begins with what the plain network knows,
    assert len(result.log) > 3  # and does not stop for that
    assert is_accurate(TINY, result.accuracy)
    assert result.attacked is not None
    assert sum(before.values()) / len(before) <= 0.5
    assert sum(result.attacked.values()) / len(result.attacked) > 0.9
    assert result.log[-1].strength == 1.0


def test_robust_training_that_does_not_get_there_says_how_far_it_came(trained: TrainingResult) -> None:
    result = train(replace(TINY, robust=True), replace(AGAINST, most=256, watch=128), start=trained.module)
    assert result.attacked is not None
    assert min(result.attacked.values()) < 0.9


def test_the_course_of_robust_training_is_its_own_and_what_is_given_wins() -> None:
    plain, robust = NetworkSpec.of_setting("simple-fr"), NetworkSpec.of_setting("simple-fr", robust=True)
    assert plan_for(plain) == TrainingPlan()
    assert plan_for(robust).most < plan_for(plain).most
    assert plan_for(robust, most=5, seed=3).most == 5
    assert "attack" in plan_for(robust).record(robust)
    assert "attack" not in plan_for(plain).record(plain)


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("seed", 10**9), ("most", 0), ("batch", 0), ("attempts", 0)])
def test_impossible_courses_are_refused(name: str, value: int) -> None:
    with pytest.raises(SnellenError, match=f"{value}"):
        TrainingPlan(**{name: value})
