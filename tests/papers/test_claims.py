"""Claims are decided by their rules; what was not measured is never guessed."""

from __future__ import annotations

from snellen.papers.claims import Claim, MissingError, RuleResult, all_of, joined_explanations, none_of


def positive(number: float) -> RuleResult:
    return RuleResult(number > 0, f"{number} against 0")


def missing(number: float) -> RuleResult:
    raise MissingError("no number")


def test_a_claim_that_holds_carries_its_numbers_and_no_reason():
    claim = Claim(section="4", sentence="it is positive", rule=positive, explain=lambda number: "because")
    result = claim.decide(2.0, among="all")
    assert (result.section, result.sentence, result.holds, result.verdict) == ("4", "it is positive", True, "holds")
    assert (result.numbers, result.reason, result.among) == ("2.0 against 0", "", "all")


def test_a_claim_that_does_not_hold_is_explained_where_that_was_measured():
    claim = Claim(
        sentence="it is positive", rule=positive, explain=joined_explanations(lambda number: "one", lambda number: "two")
    )
    assert claim.decide(-1.0).verdict == "does not hold"
    assert claim.decide(-1.0).reason == "one; two"
    unknown = Claim(sentence="it is positive", rule=positive, explain=lambda number: missing(number).numbers)
    assert unknown.decide(-1.0).reason == ""


def test_a_claim_without_its_numbers_cannot_be_decided():
    result = Claim(sentence="it is positive", rule=missing).decide(1.0)
    assert (result.holds, result.verdict, result.numbers) == (None, "cannot be decided", "no number")


def test_rules_are_combined():
    small = lambda number: RuleResult(number < 10)  # noqa: E731
    assert all_of(positive, small)(5.0).holds
    assert not all_of(positive, small)(50.0).holds
    assert none_of(positive, small)(-0.0).holds is False
    assert none_of(positive)(-1.0).holds
