"""Statistics: scores per image become means, intervals, comparisons with controls, and verdicts where n allows them."""

from snellen.verdicts.against import Against
from snellen.verdicts.of_run import Verdicts, certainty_of, drawn_in, summary_of, verdicts_of
from snellen.verdicts.rule import MARGIN, Judgement, Verdict, compare, judge
from snellen.verdicts.sampling import MINIMUM_CLASSES, MINIMUM_GROUPS, Sampling, sampling_of
from snellen.verdicts.statistics import MINIMUM_IMAGES, Certainty, certainty, fooled, summarise
from snellen.verdicts.trust import Trust, trust

__all__ = [
    "MARGIN", "MINIMUM_CLASSES", "MINIMUM_GROUPS", "MINIMUM_IMAGES", "Against", "Certainty", "Judgement", "Sampling",
    "Trust", "Verdict", "Verdicts", "certainty", "certainty_of", "compare", "drawn_in", "fooled", "judge", "sampling_of",
    "summarise", "summary_of", "trust", "verdicts_of",
]  # fmt: skip
