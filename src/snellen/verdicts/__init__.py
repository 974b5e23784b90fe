"""Statistics: scores per image become means, intervals, comparisons with controls, and verdicts where n allows them."""

from snellen.verdicts.against import Against
from snellen.verdicts.rule import MARGIN, Judgement, Verdict, compare, judge
from snellen.verdicts.statistics import MINIMUM_IMAGES, Certainty, certainty, fooled, summarise
from snellen.verdicts.trust import Trust, trust

__all__ = [
    "MARGIN", "MINIMUM_IMAGES", "Against", "Certainty", "Judgement", "Trust", "Verdict", "certainty", "compare", "fooled",
    "judge", "summarise", "trust",
]  # fmt: skip
