"""Exams: unseen scenes that the network tells right, bucket by bucket, with the truth of each by its rule."""

from __future__ import annotations

import pytest
import torch
from tests.textbox.planted_networks import planted

from snellen.errors import SnellenError
from snellen.textbox.exam.exam_scenes import draw_exam_scenes
from snellen.textbox.networks.verification import PROOF_SEED
from snellen.textbox.scenes.settings import RULES

CR1 = RULES["complex-cr1"]
REASONER = planted(CR1, lambda seen: torch.where(seen["box2"], seen["box1"], seen["B"]))


def test_every_bucket_with_a_label_has_its_scenes() -> None:
    exam = draw_exam_scenes(REASONER, per_bucket=3)
    assert exam.buckets.tolist() == [bucket for bucket in REASONER.spec.rule.defined for _ in range(3)]
    assert len(set(exam.ids)) == len(exam) == 30
    assert exam.ids[0] == "bucket-02/000"
    assert exam.passed_over == 0
    labels = [REASONER.spec.rule.labels[bucket - 1] for bucket in exam.buckets.tolist()]
    assert exam.labels.tolist() == labels


def test_the_truth_is_the_rectangles_of_what_the_rule_looks_at() -> None:
    exam = draw_exam_scenes(REASONER, per_bucket=2)
    names = [item.name for item in REASONER.spec.rule.objects]
    for row, bucket in enumerate(exam.buckets.tolist()):
        truth = REASONER.spec.rule.truths[bucket - 1]
        for mask, chosen in ((exam.focus[row], truth.focus), (exam.avoid[row], truth.avoid)):
            by_hand = torch.zeros(64, 64, dtype=torch.bool)
            for name in chosen:
                top, left, bottom, right = exam.scenes.boxes[row, names.index(name)].tolist()
                by_hand[top:bottom, left:right] = True
            assert torch.equal(mask, by_hand), bucket
    assert exam.visible.tolist() == [int(ink.flatten(1).any(dim=1).sum()) for ink in exam.scenes.ink]


def test_bucket_twelve_by_hand() -> None:
    exam = draw_exam_scenes(REASONER, per_bucket=1)
    row = exam.buckets.tolist().index(12)  # text B, box2, box1: the boxes decide
    assert exam.focused[row].tolist() == [False, True, True]
    assert exam.avoided[row].tolist() == [True, False, False]
    assert int(exam.focus[row].sum()) == 100 + 16
    assert int(exam.avoid[row].sum()) == 15 * 13


def test_scenes_that_are_told_wrong_are_passed_over_and_counted() -> None:
    def sometimes(seen: dict[str, torch.Tensor]) -> torch.Tensor:
        wrong = torch.arange(len(seen["box1"])) % 5 == 0
        return seen["box1"] ^ wrong

    network = planted("box1", sometimes)
    exam = draw_exam_scenes(network, per_bucket=4)
    assert exam.ids[:4] == ("bucket-01/001", "bucket-01/002", "bucket-01/003", "bucket-01/004")
    assert exam.passed_over == 12
    assert len(exam) == 48


def test_a_network_that_is_wrong_cannot_be_examined() -> None:
    with pytest.raises(SnellenError, match="is right on only 0 of 14 scenes of bucket 7"):
        draw_exam_scenes(planted("box1", lambda seen: torch.zeros_like(seen["box1"])), per_bucket=3)
    with pytest.raises(SnellenError, match="at least one scene per bucket"):
        draw_exam_scenes(REASONER, per_bucket=0)


def test_the_same_exam_twice_and_another_seed_another() -> None:
    first, same, other = (
        draw_exam_scenes(REASONER, per_bucket=2),
        draw_exam_scenes(REASONER, per_bucket=2),
        draw_exam_scenes(REASONER, per_bucket=2, seed=PROOF_SEED),
    )
    assert torch.equal(first.scenes.pixels, same.scenes.pixels)
    assert not torch.equal(first.scenes.pixels, other.scenes.pixels)
    more = draw_exam_scenes(REASONER, per_bucket=4)
    assert set(first.ids) < set(more.ids)


def test_samples_carry_label_and_truth() -> None:
    exam = draw_exam_scenes(REASONER, per_bucket=1)
    samples = exam.samples()
    assert [sample.id for sample in samples] == list(exam.ids)
    assert [sample.label for sample in samples] == exam.labels.tolist()
    for row, sample in enumerate(samples):
        assert sample.truth is not None
        assert torch.equal(sample.truth, exam.focus[row])
        assert torch.equal((sample.image * 255).round().to(torch.uint8), exam.scenes.pixels[row])
