"""Conformance tests: inputs for which the correct score can be derived by hand, run with Snellen and other toolkits."""

from snellen.conformance.fixtures import Fixture
from snellen.conformance.reference_cases import CaseResult, ReferenceCase, reference_cases
from snellen.conformance.table import Conformance, conform
from snellen.conformance.toolkit import NotOffered, Toolkit

__all__ = ["CaseResult", "Conformance", "Fixture", "NotOffered", "ReferenceCase", "Toolkit", "conform", "reference_cases"]
