"""The conformance suite: questions whose answer is known, put to Snellen and to other toolkits in the same words."""

from snellen.conformance.answers import Cell, KnownAnswer, known_answers
from snellen.conformance.scene import Scene
from snellen.conformance.table import Conformance, conform
from snellen.conformance.toolkit import NotOffered, Toolkit

__all__ = ["Cell", "Conformance", "KnownAnswer", "NotOffered", "Scene", "Toolkit", "conform", "known_answers"]
