"""The engine of a run: stated by the user, kept from the run that is continued, or chosen by measuring."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch

from snellen.classifier import Classifier
from snellen.classifier.engines.engine import ENGINES, EngineName
from snellen.classifier.engines.later import rows_that_repay
from snellen.classifier.engines.onnx_runtime import missing_packages
from snellen.classifier.engines.trial import SHORT_PLAN, Trial
from snellen.errors import SnellenError, nearest
from snellen.images import Samples
from snellen.runs.record import EngineRecord, EngineTrial, RunRecord
from snellen.types import Images

MOST_PICTURES = 32
"""The most pictures on which engines are compared."""


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """The engine of a run, and how it was chosen."""

    name: EngineName
    record: EngineRecord | None = None
    """None for a run that keeps the engine it was started with."""
    note: str | None = None
    """A sentence for the user; None where nothing was tried."""
    seconds: float = 0.0
    """What choosing and preparing took."""
    picture_seconds: float | None = None
    """Per forward-only pass of one picture, where that was measured."""

    @property
    def variant_rows(self) -> int | None:
        """How many rows each variant computes eagerly before the engine is prepared for it; None for all."""
        return None if self.record is None else self.record.variant_rows


def check_engine(name: str | None) -> EngineName | None:
    """The engine that a user named; refuses unknown names, and engines whose packages are not installed."""
    if name is None:
        return None
    if name not in ENGINES:
        raise SnellenError(f"there is no engine '{name}'{nearest(name, ENGINES)}; say one of {', '.join(ENGINES)}, or none")
    if name == "onnxruntime" and (missing := missing_packages()):
        raise SnellenError(f"--engine onnxruntime needs {' and '.join(missing)}: pip install 'snellen[fast]'")
    return name


def state_engine(name: EngineName, classifier: Classifier, samples: Samples) -> EngineChoice:
    """The engine that the user named, or the eager one with a note that says why."""
    started = time.perf_counter()
    if name == "eager":
        return EngineChoice(name=name, record=EngineRecord(stated=True, trials=(EngineTrial(name=name),)))
    pictures = first_inputs(classifier, samples)
    trials = [classifier.try_engine("eager", pictures), classifier.try_engine(name, pictures)]
    if trials[1].reason is None:
        trials.reverse()
    return _chosen(classifier, pictures, trials, stated=True, started=started)


def choose_engine(
    classifier: Classifier, samples: Samples, *, passes: int, processes: int, threads: int | None, pass_seconds: float
) -> EngineChoice:
    """The fastest engine by measuring, where the plan is long enough to repay that.

    Args:
        classifier: The classifier, which uses the engine from now on.
        samples: Of which the first are computed.
        passes: How many forward-only passes of one picture are planned.
        processes: Among how many processes they are divided.
        threads: Torch threads of each process; as many as here where None.
        pass_seconds: Of a forward pass of one picture.
    """
    left = passes * pass_seconds / processes
    if left < SHORT_PLAN:
        return EngineChoice(name="eager", record=EngineRecord(stated=False, trials=(EngineTrial(name="eager"),)))
    started = time.perf_counter()
    pictures = first_inputs(classifier, samples)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        trials = classifier.choose_engine(pictures, passes, processes)
    finally:
        torch.set_num_threads(before)
    return _chosen(classifier, pictures, trials, stated=False, started=started)


def keep_engine(old: RunRecord, folder: object) -> EngineChoice:
    """The engine that a run was started with, which goes on with it."""
    name = old.spec.engine_name
    if name not in ENGINES:
        raise SnellenError(
            f"'{folder}' was computed with the engine '{name}', but this version has {', '.join(ENGINES)}; update Snellen, "
            "or choose another --out"
        )
    return EngineChoice(name=name, record=old.engine)


def prepare_kept(choice: EngineChoice, classifier: Classifier, pictures: Images, folder: object) -> EngineChoice:
    """The same after the classifier uses it; an engine that cannot be used here is refused, for it gives other numbers."""
    started = time.perf_counter()
    reason = classifier.use_engine(choice.name, pictures, variant_rows=choice.variant_rows).reason
    if reason is not None:
        raise SnellenError(
            f"'{folder}' was computed with the engine '{choice.name}', which cannot be used here ({reason}); make that "
            "possible, or choose another --out"
        )
    return replace(choice, seconds=time.perf_counter() - started)


def first_inputs(classifier: Classifier, samples: Samples) -> Images:
    """The inputs of the first samples, as far as they have the size of the very first."""
    images = [sample.image for sample in samples[:MOST_PICTURES]]
    return classifier.to_inputs(torch.stack([image for image in images if image.shape == images[0].shape]))


def _chosen(classifier: Classifier, pictures: Images, trials: list[Trial], *, stated: bool, started: float) -> EngineChoice:
    """The first of these engines, which the classifier uses from now on."""
    best, eager = trials[0], next(trial for trial in trials if trial.name == "eager")
    record = EngineRecord(stated=stated, trials=tuple(map(_recorded, trials)))
    if (rows := rows_that_repay(eager, best)) is not None:
        record = record.changed(variant_rows=rows)
    classifier.use_engine(best.name, pictures, variant_rows=rows)
    return EngineChoice(
        name=best.name,
        record=record,
        note=f"engine of forward-only passes: {record.words}",
        seconds=time.perf_counter() - started,
        picture_seconds=best.row_seconds,
    )


def _recorded(trial: Trial) -> EngineTrial:
    facts: dict[str, Any] = {
        "name": trial.name,
        "picture_seconds": trial.row_seconds,
        "preparation_seconds": None if trial.name == "eager" else trial.seconds,
        "difference": trial.difference,
        "reason": trial.reason,
    }
    return EngineTrial(**{name: value for name, value in facts.items() if value is not None})
