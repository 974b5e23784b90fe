"""How often the analysis of a study is wrong: simulated studies in which nothing differs, read as `study analyse` does.

    python benchmarks/study_errors.py [--studies 500] [--people 36] [--processes 2] [--markdown FILE]

Simulated participants (by default some leave, some do not look) take part in small studies without any effect. What is then
found is an error, and about one test in twenty may find something. For equality the truth is moved to the very edge of the
margin, where to say "equal" is an error.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from snellen.study.analysis.analyse import compare_arms
from snellen.study.analysis.comparisons import contrasts
from snellen.study.analysis.equivalence import equivalences
from snellen.study.analysis.mixed_model import fit_mixed_model
from snellen.study.analysis.outcomes import OutcomeScores, outcomes
from snellen.study.folder import Study
from snellen.study.protocol import Protocol
from snellen.study.scales import Questionnaire, shipped
from snellen.study.simulation.behaviour import simulate_answers
from snellen.study.simulation.effect import Effect
from snellen.study.stimuli import Item
from snellen.study.tasks import Decision, Percent, Rating, Selection, find_task
from snellen.verdicts.statistics import holm

ALPHA, MARGIN = 0.05, 0.5
ARMS = ["grad-cam", "guided-backprop", "lime"]
"""No arm without maps, so that every outcome is asked for in all three."""

BETWEEN = [
    {"task": name, "items": 8, "practice": 0}
    for name in ("confidence", "error-detection", "class-accuracy", "forward-selection", "betting", "sharpness")
]
WITHIN = [{"task": name, "items": 9, "practice": 0} for name in ("error-detection", "class-accuracy")]


@cache
def study(design: str) -> Study:
    """A study without pictures: simulated participants do not look at them."""
    values = {"title": "Null", "arms": ARMS, "design": design, "tasks": BETWEEN if design == "between" else WITHIN}
    protocol = Protocol.of(values, "benchmark")
    items = tuple(
        Item(
            id=f"{plan.task}-{place}",
            task=plan.task,
            practice=False,
            samples=(f"s{place}",),
            predictions=("tabby",),
            truth=_truth(plan.task, place),
            pictures={},
        )
        for plan in protocol.tasks
        for place in range(plan.items)
    )
    scales = {name: Questionnaire.read(shipped()[name]) for name in protocol.scales}
    return Study(folder=Path(), protocol=protocol, items=items, subject={}, scales=scales, texts={})


def _truth(task: str, place: int) -> float | tuple[bool, ...] | None:
    return {
        Percent: float(5 + 13 * place % 95),
        Decision: float(place % 2),
        Selection: tuple((place + further) % 3 > 0 for further in range(6)),
        Rating: None,
    }[type(find_task(task).form)]  # type: ignore[index]


def errors(design: str, people: int, seed: int) -> dict[str, bool]:
    """What one null study finds: by name of a test, whether it errs."""
    simulated = study(design)
    scores = outcomes(simulated, simulate_answers(simulated, people, Effect(), seed=seed).counted)
    return dict(_between(simulated, scores) if design == "between" else _within(simulated, scores))


def _between(study: Study, scores: list[OutcomeScores]) -> Iterator[tuple[str, bool]]:
    decisions, pairs = [], []
    for outcome in scores:
        name, result = outcome.facts.name, compare_arms(study, outcome)
        decisions.append(result.decision.p)
        pairs.append(min((pair.p_holm for pair in result.contrasts), default=math.nan))
        yield f"Welch's ANOVA: {name}", decisions[-1] < ALPHA
        yield f"classical ANOVA: {name}", result.alternatives[0].p < ALPHA
        yield f"any pair, Holm over pairs: {name}", pairs[-1] < ALPHA
        if outcome.facts.kind == "task":
            model = fit_mixed_model(outcome.trials, outcome.arms, within=False, binary=outcome.facts.binary)
            yield f"mixed model: {name}", model.overall.p < ALPHA
            if model.odds:
                yield f"odds (GEE): {name}", model.odds.overall.p < ALPHA
        else:
            yield from _edge(outcome)
    after = holm(np.array(decisions))
    yield "headline: any of eight outcomes", bool((after < ALPHA).any())
    yield "headline: any pair of any outcome", any(p < ALPHA and q < ALPHA for p, q in zip(after, pairs, strict=True))


def _edge(outcome: OutcomeScores) -> Iterator[tuple[str, bool]]:
    """One arm is moved by the whole margin, so that it is not equal to the others; these are."""
    moved = outcome.trials.assign(score=outcome.trials["score"] + MARGIN * (outcome.trials["arm"] == ARMS[0]))
    values = replace(outcome, trials=moved).by_arm
    some = contrasts(values)
    pairs = {(pair.first, pair.second): pair for pair in equivalences(values, some, MARGIN)}
    wrong = [pairs[ARMS[0], ARMS[1]], pairs[ARMS[0], ARMS[2]]]
    yield f"equality at the margin, one pair: {outcome.facts.name}", wrong[0].p < ALPHA
    yield f"equality at the margin, any pair, Holm: {outcome.facts.name}", any(pair.p_holm < ALPHA for pair in wrong)


def _within(study: Study, scores: list[OutcomeScores]) -> Iterator[tuple[str, bool]]:
    for outcome in scores:
        name, result = outcome.facts.name, compare_arms(study, outcome)
        yield f"within, Greenhouse–Geisser: {name}", result.decision.p < ALPHA
        yield f"within, any pair, Holm over pairs: {name}", any(pair.p_holm < ALPHA for pair in result.contrasts)
        if name == "class-accuracy":
            model = fit_mixed_model(outcome.trials, outcome.arms, within=True, binary=False)
            yield f"within, mixed model: {name}", model.overall.p < ALPHA


def _some(work: tuple[str, int, list[int]]) -> tuple[Counter[str], Counter[str]]:
    design, people, seeds = work
    wrong: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for seed in seeds:
        for name, err in errors(design, people, seed).items():
            wrong[name] += err
            tests[name] += 1
    return wrong, tests


def measure(studies: int, people: int, processes: int, first: int = 0) -> tuple[Counter[str], Counter[str]]:
    """Errors and tests, by name, over so many studies of each design, whose seeds count up from `first`."""
    parts = [list(range(first + start, first + studies, 20)) for start in range(20)]
    work = [(design, size, seeds) for design, size in (("between", people), ("within", people // 2)) for seeds in parts]
    wrong: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(processes) as pool:
        for errs, tests in pool.map(_some, work):
            wrong.update(errs)
            counts.update(tests)
    return wrong, counts


def table(wrong: Counter[str], counts: Counter[str]) -> list[str]:
    """A row per test, with the interval that the number of studies leaves."""
    rows = ["| test | errs in | 95 % interval | studies |", "| --- | ---: | ---: | ---: |"]
    for name, count in counts.items():
        low, high = proportion_confint(wrong[name], count, method="beta")
        rows.append(f"| {name} | {wrong[name] / count:.1%} | {low:.1%} – {high:.1%} | {count} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--people", type=int, default=36, help="in three arms; half as many within subjects")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed; another one tries other studies")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    rows = table(*measure(options.studies, options.people, options.processes, options.first))
    rows += [
        "",
        f"{options.studies} studies of each design in {time.perf_counter() - start:.0f} s, {options.processes} processes.",
    ]
    print("\n".join(rows))
    if options.markdown:
        options.markdown.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
