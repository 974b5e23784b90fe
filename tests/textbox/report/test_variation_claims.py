"""What is concluded about other networks and backgrounds, from frames made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.textbox.handmade import Values, frame_of

from snellen.papers.claims import ClaimResult
from snellen.textbox.report.bucket_means import PAPER, BucketMeans, paper_methods
from snellen.textbox.report.variation_claims import decide

SETTINGS = ("simple-fr", "complex-fr")
LABELS = (*PAPER.values(), "random", "edge")


def means_of(values: Values, methods: Sequence[str] = LABELS, settings: Sequence[str] = SETTINGS) -> BucketMeans:
    frame = frame_of(values, methods, settings)
    return BucketMeans.of(frame, paper_methods(methods))


def falling(simple: float, hard: float) -> Values:
    return lambda name, bucket, method: (
        simple if name.startswith("simple") else hard,
        0.1 if name.startswith("simple") else 0.2,
    )


def claim_about(results: Sequence[ClaimResult], words: str) -> ClaimResult:
    (result,) = [claim for claim in results if words in claim.sentence]
    return result


def test_every_architecture_is_asked_about_averages_and_worst_buckets() -> None:
    others = {"resnet": means_of(falling(0.8, 0.4)), "vit-tiny": means_of(falling(0.4, 0.6))}
    results = decide("architecture", means_of(falling(0.9, 0.1)), others)
    assert len(results) == 8
    assert all(result.holds is result.sentence.startswith("resnet") for result in results)
    broken = claim_about(results, "vit-tiny: PAFL on average")
    assert broken.numbers == "0 of 15; mean over methods .40 to .60"
    assert (
        "of the plain networks on black, in the same settings, it holds (15 of 15; mean over methods .90 to .10)"
        in broken.reason
    )
    assert broken.reason.endswith("go from simple settings to complex ones random .40 to .60, edge .40 to .60")


def test_one_method_that_does_not_fall_is_named() -> None:
    def values(name: str, bucket: int, method: str) -> tuple[float, float]:
        return (0.7 if method == "deconvnet" and name == "complex-fr" else 0.6 if name == "simple-fr" else 0.3), 0.1

    result = claim_about(decide("architecture", means_of(values), {"alexnet": means_of(values)}), "PAFL on average")
    assert result.holds is False
    assert result.numbers.startswith("14 of 15, not DCN .10; ")


def test_robust_networks_must_help_both_gradients() -> None:
    plain = means_of(falling(0.4, 0.2))
    better = decide("robust", plain, {"robust": means_of(falling(0.6, 0.2))})
    assert all(result.holds for result in better)
    assert claim_about(better, "average PAFL on robust").numbers == "G .40 plain, .60 robust; SG .40 plain, .60 robust"
    only_one = means_of(lambda name, bucket, method: (0.6 if method == "gradient" else 0.4, 0.1))
    assert claim_about(decide("robust", plain, {"robust": only_one}), "average PAFL on robust").holds is False
    without = means_of(falling(0.6, 0.2), methods=LABELS[2:])
    assert claim_about(decide("robust", plain, {"robust": without}), "average PAFL on robust").numbers == "not run: G, SG"


def test_noise_must_lower_the_worst_bucket_of_every_method() -> None:
    results = decide("noise", means_of(falling(0.8, 0.5)), {"noise": means_of(falling(0.6, 0.5))})
    assert claim_about(results, "noise lowers the PAFL in the worst bucket for every method in simple").holds
    same = claim_about(results, "noise lowers the PAFL in the worst bucket for every method in complex")
    assert same.holds is False
    assert same.numbers == "0 of 15; mean over methods .50 to .50"
    assert "neither where it should nor on what is to be avoided grows by .00 on average" in same.reason
    assert claim_about(results, "SAFL rises for most").holds


def test_photographs_are_compared_with_black_and_with_noise() -> None:
    plain, photos, noise = (means_of(falling(*levels)) for levels in ((0.9, 0.5), (0.4, 0.2), (0.7, 0.1)))
    results = decide("photos", plain, {"photos": photos, "noise": noise})
    assert claim_about(results, "above .5 in the worst bucket").holds
    assert claim_about(results, "in simple settings photographs take more").holds
    more = claim_about(results, "in complex settings photographs take more")
    assert more.holds is False
    assert more.reason.startswith("edges, which know the scene alone, score .50 on black, .10 on noise, .20 on photographs")
    alone = decide("photos", plain, {"photos": photos})
    assert claim_about(alone, "in simple settings photographs take more").holds is None
    high = claim_about(decide("photos", plain, {"photos": noise}), "above .5 on average")
    assert (high.holds, high.numbers) == (False, "0 of 15; the highest is G .70")


def test_methods_that_explain_only_one_of_the_two_are_not_compared() -> None:
    few = means_of(falling(0.4, 0.2), methods=("gradient", "deep-taylor", "lrp-z"))
    result = claim_about(
        decide("noise", means_of(falling(0.9, 0.5)), {"noise": few}), "worst bucket for every method in simple"
    )
    assert result.holds is None
    assert result.numbers == "3 methods were run on both; at least 4 are needed"
