"""Statistics: scores per image become means, intervals, comparisons with controls, and verdicts where n allows them."""

from snellen.verdicts.paired_difference import PairedDifference
from snellen.verdicts.rule import MARGIN, Judgement, Verdict, judge
from snellen.verdicts.run_looks import RunLooks
from snellen.verdicts.run_verdicts import Verdicts, judge_run, run_certainty, run_sampling, stored_verdicts
from snellen.verdicts.sampling import MINIMUM_CLASSES, MINIMUM_GROUPS, Sampling, sampling_of
from snellen.verdicts.statistics import MINIMUM_IMAGES, Certainty, certainty, fooled, summarise
from snellen.verdicts.trust import Trust, trust

__all__ = [
    "MARGIN",
    "MINIMUM_CLASSES",
    "MINIMUM_GROUPS",
    "MINIMUM_IMAGES",
    "Certainty",
    "Judgement",
    "PairedDifference",
    "RunLooks",
    "Sampling",
    "Trust",
    "Verdict",
    "Verdicts",
    "certainty",
    "fooled",
    "judge",
    "judge_run",
    "run_certainty",
    "run_sampling",
    "sampling_of",
    "stored_verdicts",
    "summarise",
    "trust",
]  # fmt: skip
