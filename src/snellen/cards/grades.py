"""An attribute in one number, by one formula.

For the five attributes that tests measure, each verdict has a value v (pass 1, inconclusive ½, fail 0) and its metric's
weight w (see `verdicts.trust`). The grade is

    (½ + Σ w·v) / (1 + Σ w):

a weighted mean that begins with one undecided test of weight 1, so that a single test by a doubtful metric moves it little
and many good ones move it far. Verdicts that are not counted have no weight, and neither has the literature, which is about
other models. Where no test counts there is no grade. The five attributes of methodology are graded by what was measured of
them (see `methodology`); semantic directness by the word that its prose gives it: a judgement, not a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from snellen.cards.schema import METHODOLOGY, TESTED, Evidence, Finding, Grade, Priority
from snellen.plugins.registry import Attribute
from snellen.verdicts import Verdict

VALUES = {"pass": 1.0, "inconclusive": 0.5, "fail": 0.0}

GOOD, POOR = 2 / 3, 1 / 3
"""From the first on a grade is good, up to the second it is poor, in between it is mixed."""


BORROWED: Mapping[str, Verdict] = {"good": "pass", "mixed": "inconclusive", "poor": "fail", "not known": "not counted"}
"""Which verdict's shape and colour the word of a grade borrows."""


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
            reason=idle(measured[0]) if measured else nothing,
            weight=0.0,
        )
    share = (0.5 + sum(evidence.weight * VALUES[evidence.verdict] for evidence in counted)) / (1 + total)
    counts = {name: sum(evidence.verdict == name for evidence in counted) for name in VALUES}
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return Grade(
        attribute=attribute, share=share, word=word(share), reason=f"{words}; together they weigh {total:.1f}", weight=total
    )


def idle(evidence: Evidence) -> str:
    """Why a test of the run counts nothing: it has no verdict, or a verdict by a metric without weight."""
    if evidence.verdict == "not counted" or evidence.trust is None:
        return evidence.reason
    return f"{evidence.verdict} by a metric that weighs nothing here, {evidence.trust.marks[0]}"


def grades(
    evidence: Sequence[Evidence], findings: Mapping[Attribute, Finding], *, people: bool = False
) -> dict[Priority, Grade]:
    """The grades of all ten attributes, and of use to people where a study asked some."""
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
    """A grade in a word."""
    if math.isnan(share):
        return "not known"
    return "good" if share >= GOOD else "poor" if share <= POOR else "mixed"
