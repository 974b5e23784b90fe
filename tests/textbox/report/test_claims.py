"""The claims of the paper, on frames made by hand so that each is known to hold or not."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest
from tests.textbox.handmade import Values, frame_of

from snellen.papers.claims import ClaimResult, MissingError
from snellen.plugins.registry import METHODS, label
from snellen.textbox.exam import summaries
from snellen.textbox.report.bucket_means import (
    PAPER,
    BucketMeans,
    count_methods,
    is_control,
    own_methods,
    paper_methods,
)
from snellen.textbox.report.claims import CLAIMS, decide_claims

WEAK = ("gradient", "smoothgrad-squared", "deconvnet", "guided-backprop")


def as_published(name: str, bucket: int, method: str) -> tuple[float, float]:
    """What the paper found, in rough numbers: every claim holds of it."""
    shown = ((bucket - 1) % 3 > 0) + ((bucket - 1) // 3 % 2) + (bucket > 6)
    if name.startswith("simple"):
        base = 0.40 if method in WEAK else 0.85
        if method != "deeplift-rescale" and method not in WEAK:
            base -= 0.15 if shown == 3 else 0
        return base - 0.1 * shown, 0.05 * shown
    if method == "lrp-epsilon" and name == "complex-fr":
        return 0.6, 0.2
    if name == "complex-cr2" and bucket in (5, 6):
        return (0.3 if method in WEAK else 0.6), 0.3
    base = 0.55 if bucket == 4 and method in ("integrated-gradients", "input-x-gradient") else 0.3
    base += 0.2 if method.startswith(("lrp", "deeplift", "integrated")) else 0
    return base - (0.4 if bucket in (5, 8) else 0) - (
        0.2 if method in WEAK or method in ("grad-cam", "deepshap") else 0
    ), 0.45


def claim_about(results: Sequence[ClaimResult], words: str, among: str = "paper") -> ClaimResult:
    (result,) = [claim for claim in results if words in claim.sentence and claim.among == among]
    return result


def test_all_claims_hold_of_numbers_like_the_published() -> None:
    results = decide_claims(frame_of(as_published))
    assert {result.sentence: result.verdict for result in results} == {claim.sentence: "holds" for claim in CLAIMS}
    assert all(result.numbers and not result.reason for result in results)


def test_perfect_maps_break_the_claims_that_something_is_weak() -> None:
    results = decide_claims(frame_of(lambda name, bucket, method: (0.9, 0.05)))
    assert claim_about(results, "most methods (more than half)").holds
    assert claim_about(results, "average a PAFL below .5").holds is False
    assert claim_about(results, "are weak in simple").holds is False
    assert claim_about(results, "the worst bucket is far").holds is False
    assert claim_about(results, "PAFL falls for every method").holds is False
    assert claim_about(results, "beside LRP-ε").holds is False
    assert claim_about(results, "no method succeeds in all buckets of all").numbers.startswith("G, SG, DCN")


def test_a_bucket_that_is_missed_is_named_with_its_numbers() -> None:
    def values(name: str, bucket: int, method: str) -> tuple[float, float]:
        return (0.31, 0.42) if (name, bucket, method) == ("simple-nr", 11, "deeplift-rescale") else (0.8, 0.1)

    result = claim_about(decide_claims(frame_of(values)), "rescale rule succeeds in all")
    assert result.holds is False
    # of ten: buckets 8 to 12 of simple-fr and 5, 6, 8, 9, 11, 12 of simple-nr show something to avoid
    assert result.numbers == "10 of 11 buckets, the lowest at .31"
    assert "simple-nr 11 (.31 of the map where it should be, .42 on what is to be avoided)" in result.reason


def test_a_bucket_without_a_map_is_no_success() -> None:
    nan = float("nan")

    def values(name: str, bucket: int, method: str) -> tuple[float, float]:
        blank = bucket == 11 and method in ("deeplift-rescale", "grad-cam")
        return (nan, nan) if blank else (0.9, 0.05) if method in ("deeplift-rescale", "grad-cam") else (0.4, 0.1)

    results = decide_claims(frame_of(values))
    rescale = claim_about(results, "rescale rule succeeds in all")
    assert (rescale.holds, rescale.numbers) == (False, "9 of 11 buckets, the lowest at .90")
    assert "simple-fr 11 (undefined of the map where it should be" in rescale.reason
    assert claim_about(results, "no other method succeeds").numbers == "of 15 methods: none"
    assert claim_about(results, "no method succeeds in all buckets of all").holds
    shares = BucketMeans.of(frame_of(values), paper_methods(PAPER.values())).shares("success", simple=True)
    assert shares["G-CAM"].tolist() == [1, 1], "of the buckets in which it is defined, as on the page"


def test_settings_of_one_s_own_are_not_among_both_simple_settings() -> None:
    paper = frame_of(lambda name, bucket, method: (0.9 if method == "grad-cam" else 0.4, 0.05))
    own = frame_of(lambda name, bucket, method: (0.2, 0.05), settings=["simple-fr"]).assign(setting="my-rule")
    assert claim_about(decide_claims(pd.concat([paper, own])), "no other method succeeds").numbers == "of 15 methods: G-CAM"


def test_where_no_reason_can_be_measured_there_is_none() -> None:
    frame = frame_of(lambda name, bucket, method: (0.9, 0.1), settings=["simple-fr"]).assign(safl=float("nan"))
    weak = claim_about(decide_claims(frame), "are weak in simple")
    assert (weak.holds, weak.reason) == (False, "")


def test_the_spread_over_buckets_is_that_of_the_figures() -> None:
    frame = frame_of(as_published)
    ours = BucketMeans.of(frame, paper_methods(PAPER.values())).deviation("pafl", simple=True)
    page = summaries.averages(frame[frame["simple"]]).set_index("method")["spread"]
    assert ours["IG"] == pytest.approx(page["integrated-gradients"])


def test_a_claim_that_does_not_hold_is_asked_of_the_published_reading() -> None:
    paper = frame_of(lambda name, bucket, method: (0.7, 0.1))
    code = frame_of(lambda name, bucket, method: (0.2 if method in WEAK else 0.7, 0.1))
    result = claim_about(decide_claims(paper, code), "are weak in simple")
    assert result.holds is False
    assert result.numbers == "G .70, SG .70, DCN .70, GBP .70"
    assert result.reason.endswith("scored as the published code does, it holds (G .20, SG .20, DCN .20, GBP .20)")
    again = claim_about(decide_claims(paper, paper), "are weak in simple")
    assert "it does not hold either" in again.reason


def test_more_than_half_is_needed_for_most() -> None:
    eight = list(PAPER.values())[:8]

    def values(strong: int) -> Values:
        return lambda name, bucket, method: (0.6 if method in list(PAPER.values())[:strong] else 0.4, 0.1)

    words = "most methods (more than half)"
    simple = ["simple-fr"]
    assert claim_about(decide_claims(frame_of(values(8), settings=simple)), words).holds
    assert claim_about(decide_claims(frame_of(values(7), settings=simple)), words).holds is False
    assert claim_about(decide_claims(frame_of(values(4), eight, simple)), words).holds is False, "just half is not most"


def test_what_was_not_run_cannot_be_told() -> None:
    results = decide_claims(frame_of(as_published, methods=["gradient", "lrp-z", "deep-taylor", "grad-cam", "random"]))
    weak = claim_about(results, "are weak in simple")
    assert weak.holds is None
    assert weak.numbers == "not run: SG, DCN, GBP"
    assert weak.verdict == "cannot be decided"
    assert claim_about(results, "average a PAFL below .5").holds is not None
    few = decide_claims(frame_of(as_published, methods=["gradient", "lrp-z"]))
    assert claim_about(few, "average a PAFL below .5").numbers == "2 methods were run; at least 4 are needed"
    simple = decide_claims(frame_of(as_published, settings=["simple-fr"]))
    assert claim_about(simple, "PAFL falls for every method").numbers == "no complex setting was run"
    assert claim_about(simple, "no other method succeeds").numbers == "simple-nr was not run"
    assert claim_about(simple, "rescale rule succeeds in all").numbers == "simple-nr was not run"


def test_other_methods_are_asked_about_beside_the_papers() -> None:
    methods = [*PAPER.values(), "rise", "lime", "occlusion", "eigen-cam", "score-cam", "random", "edge", "oracle"]
    results = decide_claims(frame_of(lambda name, bucket, method: (0.6 if method in PAPER.values() else 0.1, 0.3), methods))
    words = "most methods (more than half)"
    assert claim_about(results, words).numbers == "15 of 15; mean over methods .60"
    assert claim_about(results, words, among="all").numbers.startswith("15 of 20, not rise .10, lime .10")
    assert not [result for result in results if result.among == "all" and "DeepLIFT" in result.sentence]


def test_a_method_that_did_not_explain_every_setting_is_left_out() -> None:
    whole = frame_of(as_published)
    part = whole[(whole["method"] != "gradient") | (whole["setting"] == "simple-fr")]
    assert "G" not in BucketMeans.of(part, paper_methods(part["method"])).methods


def test_the_papers_methods_are_found_under_their_labels() -> None:
    for name in PAPER.values():
        assert paper_methods([label(METHODS.build(name))]), name
    labels = ["lrp-epsilon", "lrp-epsilon@kim2022", "deepshap(backgrounds=32)", "smoothgrad", "random", "oracle"]
    assert paper_methods(labels) == {"LRP-E": "lrp-epsilon@kim2022", "D-SHAP": "deepshap(backgrounds=32)"}
    assert is_control("random")
    assert not is_control("gradient")
    assert not is_control("somebody:Else")
    assert list(own_methods(labels)) == labels[:4]


def test_numbers_say_how_many_and_which() -> None:
    true = pd.Series({"G": True, "SG": True, "IG": False})
    assert count_methods(true) == "2 of 3, not IG"
    assert count_methods(~true, pd.Series({"G": 0.1, "SG": 0.2, "IG": -0.345})) == "1 of 3, only IG −.34"
    assert count_methods(true | True) == "3 of 3"
    many = pd.Series({str(at): at < 12 for at in range(22)})
    assert count_methods(many) == "12 of 22, not 12, 13, 14, 15, 16, 17, 18, 19 and 2 more"
    with pytest.raises(MissingError, match="2 methods"):
        _ = BucketMeans(rows=pd.DataFrame(), methods=("G", "SG"), other_rows=pd.DataFrame()).enough_methods
