"""A planted study beside a run over the same images, in which a metric knows on which image which map helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tests.report.recorded import Recorded, method, metric
from tests.study.planted_study import plant

from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import simulate_answers
from snellen.study.simulation.effect import Effect, ParticipantMix

ARMS = ("grad-cam", "guided-backprop", "lime")
TASKS = [{"task": "error-detection", "items": 12, "practice": 1}, {"task": "class-accuracy", "items": 12, "practice": 1}]


def linked(folder: Path, **changes: Any) -> tuple[Study, Recorded]:
    """A study with and without maps, and a run with four metrics: one that knows (lower is better), and three that do not.

    Every metric likes some methods everywhere; that is no knowledge about images.
    """
    study, _ = plant(folder, **({"arms": [*ARMS, "none"], "tasks": TASKS} | changes))
    ids = sorted({sample for item in study.items for sample in item.samples})
    draw = np.random.default_rng(229)  # these happen to have little to do with each other
    names = {"knowing": False, "first": True, "second": False, "third": True}
    values = {(arm, name): draw.normal(0, 1, len(ids)) + draw.normal(0, 2) for name in names for arm in (*ARMS, "random")}
    methods = [method(arm) for arm in ARMS] + [method("random", control=True)]
    run = Recorded(methods=methods, metrics=[metric(name, higher=up) for name, up in names.items()], ids=ids, values=values)
    return study, run


def knowledge(study: Study, run: Recorded, name: str, size: float) -> dict[tuple[str, str], float]:
    """Items are easier with a map where the metric is better: so many deviations of skill per deviation of the metric."""
    sign = next(1 if metric.higher_is_better else -1 for metric in run.metrics if metric.label == name)
    effects = {}
    for arm in ARMS:
        own = dict(zip(run.ids, run.values[(arm, name)] - run.values[(arm, name)].mean(), strict=True))
        for item in study.items:
            effects[(arm, item.id)] = sign * size * sum(own[sample] for sample in item.samples) / len(item.samples) ** 0.5
    return effects


def answers(study: Study, people: int, effect: Effect, *, seed: int = 0) -> StudyData:
    """Everybody looks, and nobody leaves."""
    return simulate_answers(study, people, replace(effect, mix=ParticipantMix(0.0, 0.0, 0.0)), seed=seed)


def real(collected: StudyData) -> StudyData:
    """The same, as if people had answered; only for tests in folders that are thrown away."""
    return StudyData(collected.participants.assign(simulated=False), collected.answers, collected.ratings, simulated=False)


def shuffled(collected: StudyData, seed: int) -> StudyData:
    """The same in another order of rows."""
    tables: Sequence[Any] = [
        table.sample(frac=1, random_state=seed) for table in (collected.participants, collected.answers, collected.ratings)
    ]
    return StudyData(*tables, simulated=collected.simulated)
