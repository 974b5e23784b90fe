"""The one formula of grades, by hand."""

from __future__ import annotations

import math

import pytest

from snellen.cards.grades import grade, word
from snellen.cards.schema import Evidence, EvidenceSource
from snellen.verdicts import Trust

RUN, PAPER = (
    EvidenceSource(kind="run", name="mine", model="model", data="images"),
    EvidenceSource(kind="literature", name="Somebody 2020", model="", data=""),
)


def evidence(verdict, split_half=1.0, *, beaten=math.nan, by=(), source=RUN, attribute="minimality", reason="as it is"):
    trust = Trust("m", tuple(by), beaten, split_half, 1.0, None)
    return Evidence(
        attribute=attribute,
        test="Sparsity",
        metric="sparsity",
        verdict=verdict,
        reason=reason,
        source=source,
        n=64,
        trust=trust,
    )


def test_the_formula_by_hand():
    result = grade(
        "minimality", [evidence("pass"), evidence("fail", 0.2), evidence("inconclusive", 0.5, by=["edge"], beaten=0.4)]
    )
    weights = 1.0, 0.2, 0.5 * (1 - 0.4)
    assert result.weight == pytest.approx(sum(weights))
    assert result.share == pytest.approx((0.5 + 1.0 * 1 + 0.2 * 0 + 0.3 * 0.5) / (1 + 1.5))
    assert result.reason.startswith("1 pass, 1 inconclusive, 1 fail")


def test_only_this_attribute_and_this_run_count():
    own = grade("minimality", [evidence("pass")])
    others = [evidence("fail", source=PAPER), evidence("fail", attribute="input-sensitivity"), evidence("not counted")]
    assert grade("minimality", [evidence("pass"), *others]) == own
    assert own.share == 0.75


def test_where_nothing_counts_the_reason_is_never_that_of_a_verdict():
    assert grade("minimality", [evidence("pass", source=PAPER)]).reason == "nothing was measured"
    few = grade("minimality", [evidence("not counted", reason="too few images for a verdict")])
    assert (math.isnan(few.share), few.word, few.reason) == (True, "not known", "too few images for a verdict")
    idle = grade("minimality", [evidence("pass", -0.2, reason="better than every control")])
    assert math.isnan(idle.share)
    assert idle.reason.startswith("pass by a metric that weighs nothing here, unreliable: two halves of the images ")
    assert idle.reason.endswith(" only to -0.20")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1.0, "good"), (2 / 3, "good"), (0.66, "mixed"), (0.34, "mixed"), (1 / 3, "poor"), (math.nan, "not known")],
)
def test_words(share, expected):
    assert word(share) == expected
