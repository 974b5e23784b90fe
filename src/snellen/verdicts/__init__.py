"""Statistics: scores per image become means, intervals, comparisons with controls, and verdicts where n allows them."""

from snellen.verdicts.statistics import MINIMUM_IMAGES, Certainty, certainty, compare, fooled, judge, summarise

__all__ = ["MINIMUM_IMAGES", "Certainty", "certainty", "compare", "fooled", "judge", "summarise"]
