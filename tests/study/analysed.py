"""Studies to be analysed, and people who look at what they answer."""

from __future__ import annotations

from pathlib import Path

from tests.study.planted_study import plant

from snellen.study.analysis import Analysis
from snellen.study.analysis.analyse import OutcomeAnalysis
from snellen.study.folder import Study
from snellen.study.simulation.effect import ParticipantMix

CAREFUL = ParticipantMix(leaving=0.0, inattentive=0.0, hasty=0.0)


def study_between(folder: Path) -> Study:
    tasks = [
        {"task": name, "items": 6, "practice": 1} for name in ("error-detection", "class-accuracy", "betting", "sharpness")
    ]
    return plant(folder, arms=["grad-cam", "lime", "none"], tasks=tasks)[0]


def study_within(folder: Path) -> Study:
    tasks = [{"task": name, "items": 9, "practice": 1} for name in ("error-detection", "confidence")]
    return plant(folder, arms=["grad-cam", "lime", "none"], tasks=tasks, design="within", scales=["trust"])[0]


def study_crossed(folder: Path) -> Study:
    """Maps are shown in two ways."""
    tasks = [{"task": "error-detection", "items": 6, "practice": 0}]
    changes = {"arms": ["grad-cam", "lime", "none"], "presentation": ["overlay", "map"], "tasks": tasks, "scales": ["trust"]}
    return plant(folder, **changes)[0]


def by_name(analysis: Analysis) -> dict[str, OutcomeAnalysis]:
    return {outcome.facts.name: outcome for outcome in analysis.outcomes}
