"""Grades: one number per attribute.

For the five attributes that tests measure, each verdict has a value v (pass 1, inconclusive ½, fail 0) and its metric's
weight w (see `verdicts.trust`). The grade is

    (½ + Σ w·v) / (1 + Σ w):

a weighted mean with one additional inconclusive test of weight 1, so that one test by a metric of low weight changes the
grade little. Verdicts that are not counted have weight 0, and so has the literature, which is about other models. If no test
counts there is no grade. The five attributes of methodology are graded by their measurement (see `methodology`), except
semantic directness, which is graded by a judgement in the prose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from snellen.cards.schema import METHODOLOGY, TESTED, Evidence, Finding, Grade, Priority
from snellen.plugins.registry import Attribute
from snellen.verdicts import Verdict

VALUES = {"pass": 1.0, "inconclusive": 0.5, "fail": 0.0}

GOOD, POOR = 2 / 3, 1 / 3
"""A grade is good from GOOD on, poor up to POOR, and mixed in between."""


BORROWED: Mapping[str, Verdict] = {"good": "pass", "mixed": "inconclusive", "poor": "fail", "not known": "not counted"}
"""By word of a grade, the verdict whose shape and colour it has."""


def grade(attribute: Priority, evidence: Sequence[Evidence]) -> Grade:
    """The grade of a tested attribute, or of use to people."""
    counted = [test for test in evidence if test.attribute == attribute and test.weight > 0]
    total = sum(evidence.weight for evidence in counted)
    if not counted:
        measured = [test for test in evidence if test.attribute == attribute and test.own]
        nothing = "nothing was measured" if attribute != "people" else "its maps were not shown to people"
        return Grade(
            attribute=attribute,
            share=math.nan,
            word="not known",
            reason=why_not_counted(measured[0]) if measured else nothing,
            weight=0.0,
        )
    share = (0.5 + sum(evidence.weight * VALUES[evidence.verdict] for evidence in counted)) / (1 + total)
    counts = {name: sum(evidence.verdict == name for evidence in counted) for name in VALUES}
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return Grade(
        attribute=attribute, share=share, word=word(share), reason=f"{words}; together they weigh {total:.1f}", weight=total
    )


def why_not_counted(evidence: Evidence) -> str:
    """Why a test of the run does not count: it has no verdict, or the weight of its metric is 0."""
    if evidence.verdict == "not counted" or evidence.trust is None:
        return evidence.reason
    return f"{evidence.verdict} by a metric that weighs nothing here, {evidence.trust.marks[0]}"


def grades(
    evidence: Sequence[Evidence], findings: Mapping[Attribute, Finding], *, people: bool = False
) -> dict[Priority, Grade]:
    """The grades of the ten attributes, and of use to people if a study was joined."""
    methodology: dict[Priority, Grade] = {}
    for attribute in METHODOLOGY:
        finding = findings.get(attribute)
        share = finding.share if finding else math.nan
        reason = finding.sentence if finding else "nothing was measured"
        methodology[attribute] = Grade(
            attribute=attribute, share=share, word=word(share), reason=reason, weight=0.0 if math.isnan(share) else 1.0
        )
    tested: tuple[Priority, ...] = (*TESTED, "people") if people else TESTED
    return methodology | {attribute: grade(attribute, evidence) for attribute in tested}


def word(share: float) -> str:
    """The word for a grade."""
    if math.isnan(share):
        return "not known"
    return "good" if share >= GOOD else "poor" if share <= POOR else "mixed"
