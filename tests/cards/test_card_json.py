"""A card as JSON loses nothing, and what is no card is refused."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given, settings
from tests.cards.generated_cards import cards

from snellen.cards.card_json import SCHEMA, as_json, read_json, write_json
from snellen.cards.card_set import card
from snellen.cards.schema import Card, Evidence, EvidenceSource
from snellen.errors import SnellenError
from snellen.verdicts import Trust


@given(cards())
@settings(max_examples=60, deadline=None)
def test_whatever_was_measured_comes_back(made):
    measured_card = made()
    text = write_json(measured_card)
    restored = read_json(text)
    assert isinstance(restored, Card)
    assert as_json(restored) == as_json(measured_card)
    assert _comparable(restored) == _comparable(measured_card)


def _comparable(value: object) -> object:
    """NaN is like no other number, and two cards with one are equal all the same."""
    return re.sub(r"\bmappingproxy\(", "(", repr(value))


def test_undefined_is_null_and_what_follows_is_written_along():
    trust = Trust("deletion", ("edge",), 0.25, math.nan, 0.5, None)
    source = EvidenceSource(kind="run", name="r", model="net", data="40 images", settings="")
    evidence = Evidence(
        attribute="minimality",
        test="Sparsity",
        metric="sparsity",
        verdict="fail",
        reason="worse",
        source=source,
        n=3,
        high=math.inf,
        trust=trust,
    )
    written = as_json(card("grad-cam", "grad-cam", [evidence], {}, source))
    assert written["schema"] == SCHEMA
    row = written["evidence"][0]
    assert (row["mean"], row["high"], row["weight"]) == (None, "inf", 0.75)
    assert row["trust"]["marks"] == list(trust.marks)
    assert row["source"]["model"] == "net"
    assert written["grades"]["determinism"]["share"] is None
    json.dumps(written, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "{", "is not valid JSON"),
        (lambda _: "[1]", "has no number 'schema'"),
        (lambda text: text.replace('"schema": 1', '"schema": 2', 1), "has schema 2, but this Snellen knows 1"),
        (lambda text: text.replace('"control": false', '"controls": false', 1), "lacks 'control'"),
        (lambda text: text.replace('"control": false', '"control": "no"', 1), "'control' cannot be 'no'"),
        (lambda text: text.replace('"verdict": "inconclusive"', '"verdict": "maybe"', 1), ".verdict' cannot be 'maybe'"),
        (
            lambda text: re.sub(r'"prose": \{', '"prose": 3, "_": {', text, count=1),
            "'prose' cannot be 3; it must hold",
        ),
    ],
)
def test_what_is_no_card_is_refused_in_a_sentence(change, message):
    text = write_json(card("grad-cam", "grad-cam"))
    with pytest.raises(SnellenError, match=re.escape(message)) as refusal:
        read_json(change(text))
    assert "\n" not in str(refusal.value)
