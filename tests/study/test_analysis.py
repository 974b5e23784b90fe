"""Whole analyses: who counts, and studies with which something is wrong."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from tests.study.analysed import CAREFUL, by_name

from snellen.study.analysis import Analysis, analyse
from snellen.study.analysis.page import page, write_analysis
from snellen.study.analysis.sentences import headline
from snellen.study.analysis.summary_table import AnalysisSummary
from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.participation import Participation, collect_data
from snellen.study.simulation.behaviour import simulate_answers
from snellen.study.simulation.effect import Effect, ParticipantMix


def shown(analysis: Analysis) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(AnalysisSummary(analysis))
    return console.file.getvalue()  # type: ignore[attr-defined]


# Who counts --------------------------------------------------------------------------------------------------------------


def test_the_flow_counts_everybody_once(between: Study) -> None:
    crowd = ParticipantMix(leaving=0.3, inattentive=0.2, hasty=0.1)
    collected = simulate_answers(between, 100, Effect(mix=crowd), seed=8)
    total = analyse(between, collected, erased=3).flow.total
    people = collected.participants
    assert total.arrived == 100
    assert sum(total.left.values()) == (people["state"] == "started").sum() > 10
    assert sum(total.excluded.values()) == people["excluded"].isin(["attention", "too fast"]).sum() > 5
    assert total.arrived - sum(total.left.values()) - total.withdrawn == total.finished
    assert total.finished - sum(total.excluded.values()) == total.analysed == (people["excluded"] == "").sum()
    assert "and 3 whose data were erased" in page(analyse(between, collected, erased=3))


def test_those_who_withdrew_are_never_analysed_not_even_without_exclusions(between: Study) -> None:
    collected = simulate_answers(between, 60, Effect(mix=CAREFUL), seed=9)
    gone = set(collected.participants["participant"][:6])
    people = collected.participants
    withdrawn = people["participant"].isin(gone)
    people = people.assign(
        state=people["state"].mask(withdrawn, "withdrawn"), excluded=people["excluded"].mask(withdrawn, "withdrawn")
    )
    analysis = analyse(between, replace(collected, participants=people))
    assert analysis.flow.total.withdrawn == 6
    for outcome in analysis.outcomes:
        least = 36 if outcome.facts.name in ("sharpness", "satisfaction") else 54
        assert sum(some.n for some in outcome.distributions) == outcome.without_exclusions.participants >= least
        assert outcome.without_exclusions.decision.p == outcome.comparison.decision.p


def test_the_sensitivity_analysis_counts_those_whom_a_rule_excludes(between: Study) -> None:
    crowd = ParticipantMix(leaving=0.0, inattentive=0.25, hasty=0.0)
    effect = Effect.of("grad-cam=1.0", between.protocol, crowd)
    outcome = by_name(analyse(between, simulate_answers(between, 90, effect, seed=10)))["error-detection"]
    assert outcome.without_exclusions.participants == 90 > sum(some.n for some in outcome.distributions)
    assert outcome.without_exclusions.decision.p != outcome.comparison.decision.p


# Nothing of this may end in a traceback ----------------------------------------------------------------------------------


def constant(collected: StudyData) -> StudyData:
    answers, ratings = collected.answers, collected.ratings
    return replace(collected, answers=answers.assign(score=1.0), ratings=ratings.assign(score=3, answer=3))


def constant_arm(collected: StudyData) -> StudyData:
    changed = collected.answers["score"].mask(collected.answers["arm"] == "none", 1.0)
    return replace(collected, answers=collected.answers.assign(score=changed))


def one_arm(collected: StudyData) -> StudyData:
    people = collected.participants
    return replace(
        collected, participants=people.assign(excluded=people["excluded"].mask(people["arm"] != "lime", "attention"))
    )


def without(task: str) -> Callable[[StudyData], StudyData]:
    return lambda collected: replace(collected, answers=collected.answers[collected.answers["task"] != task])


def undefined(collected: StudyData) -> StudyData:
    rng = np.random.default_rng(0)
    gaps = collected.answers["score"].mask(pd.Series(rng.random(len(collected.answers)) < 0.3), np.nan)
    return replace(collected, answers=collected.answers.assign(score=gaps))


def all_sure(collected: StudyData) -> StudyData:
    return replace(collected, answers=collected.answers.assign(beside=100, value=collected.answers["truth"]))


def as_they_are(collected: StudyData) -> StudyData:
    return collected


SPOILT: list[tuple[str, int, Callable[[StudyData], StudyData]]] = [
    ("between", 0, as_they_are), ("between", 1, as_they_are), ("between", 7, as_they_are), ("between", 16, as_they_are),
    ("between", 21, constant), ("between", 21, constant_arm), ("between", 21, one_arm), ("between", 21, undefined),
    ("between", 21, without("error-detection")), ("between", 21, without("sharpness")), ("between", 21, all_sure),
    ("within", 0, as_they_are), ("within", 2, as_they_are), ("within", 7, as_they_are), ("within", 9, constant),
    ("within", 9, constant_arm), ("within", 9, undefined), ("within", 9, all_sure),
    ("crossed", 0, as_they_are), ("crossed", 16, as_they_are), ("crossed", 30, constant), ("crossed", 30, one_arm),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("design", "people", "spoil"), SPOILT)
def test_whatever_is_wrong_the_report_is_written_and_says_it(
    design: str, people: int, spoil: Callable[[StudyData], StudyData], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    study: Study = request.getfixturevalue(design)
    analysis = analyse(study, spoil(simulate_answers(study, people, Effect(mix=CAREFUL), seed=1)))
    written = write_analysis(analysis, tmp_path / "out")
    assert [path.name for path in written] == ["analysis.html", "analysis.json"]
    text, values = written[0].read_text(), json.loads(written[1].read_text())
    assert not re.search(r"\bnan\b", text.split("<main>")[1], re.IGNORECASE)
    assert len(values["readings"]) == len(study.protocol.tasks) + len(study.protocol.scales)
    for result in analysis.outcomes:
        assert result.comparison.decision.defined or result.comparison.decision.why
        assert (result.conclusion == "not tested") == (not result.comparison.decision.defined)
        assert result.mixed is None or result.mixed.overall.defined or result.mixed.overall.why
    assert study.protocol.title in shown(analysis)
    if people < 5:
        assert "Nothing could be tested" in headline(analysis) or people == 0
    if spoil is constant:
        assert all(
            "same score" in outcome.comparison.decision.why or "differ" in outcome.comparison.decision.why
            for outcome in analysis.outcomes
        )


def test_nobody_yet_is_said_in_so_many_words(between: Study) -> None:
    analysis = analyse(between, collect_data(between, [], simulated=False))
    assert headline(analysis) == "Nobody has taken part yet."
    assert "No participant who is analysed has answered this." in page(analysis)


def test_somebody_who_came_and_left_is_counted(between: Study) -> None:
    visit = Participation("a", 0, 0, "en", False, "started", "", "")
    flow = analyse(between, collect_data(between, [visit], simulated=False)).flow
    assert flow.groups[0].left == {"instructions": 1}
    assert flow.total.analysed == 0


def test_what_is_worked_on_is_told(between: Study) -> None:
    steps: list[tuple[str, int, int]] = []
    analyse(between, collect_data(between, [], simulated=False), on_progress=lambda *some: steps.append(some))
    assert [step[1] for step in steps] == list(range(7))
    assert {step[2] for step in steps} == {7}
    assert steps[0][0] == "Error detection"
