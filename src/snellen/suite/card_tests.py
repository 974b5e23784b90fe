"""The card's 33 tests by attribute, and which metric answers each."""

from __future__ import annotations

from typing import get_args

from snellen.plugins.registry import METRICS, Attribute, Test

TESTS: dict[Attribute, tuple[Test, ...]] = {
    "input-sensitivity": get_args(Test)[:15],
    "label-sensitivity": get_args(Test)[15:17],
    "model-sensitivity": get_args(Test)[17:25],
    "minimality": get_args(Test)[25:28],
    "perceptual-correspondence": get_args(Test)[28:],
}
"""The five attributes that the card tests, each with its tests in the card's order."""

SHARPNESS: Test = "Visual Sharpening"
"""Answered by people who rate how sharp maps are."""

STUDY_TESTS: dict[str, str] = {SHARPNESS: "needs people"}
"""Tests that only a study with people can answer."""


def metrics_by_test() -> dict[str, str]:
    """The name of the metric that answers each test; tests without a metric are left out."""
    return {METRICS[name].traits.test: name for name in METRICS if METRICS[name].traits.test}  # type: ignore[attr-defined]
