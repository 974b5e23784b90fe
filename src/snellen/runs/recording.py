"""Makes and writes the records of a run and its units."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.classifier import Classifier
from snellen.classifier.heads import ExclusiveClasses
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.plugins.registry import label, traits
from snellen.runs import chosen_targets
from snellen.runs.foreign_code import request_seal
from snellen.runs.machine import machine, revision, versions
from snellen.runs.record import (
    SCHEMA,
    ClassifierRecord,
    Failure,
    FittedRecord,
    ModelRecord,
    Planned,
    PlannedUnit,
    Refusal,
    RunRecord,
    SampleRow,
    SamplesRecord,
    Spec,
    Totals,
    UnitRecord,
    VariantRecord,
)
from snellen.runs.store import Store, key_of
from snellen.runs.tasks import MissingUnit, Shard, metric_key
from snellen.runs.unit import ShardFacts, UnitResult
from snellen.types import Method, Metric


def describe_classifier(classifier: Classifier, *, classes: int, rows: int) -> ClassifierRecord:
    """The classifier as run.json holds it."""
    return ClassifierRecord(
        name=classifier.name,
        fingerprint=classifier.fingerprint,
        mean=tuple(classifier.mean.flatten().tolist()),
        std=tuple(classifier.std.flatten().tolist()),
        outputs=classifier.outputs,
        device=str(classifier.device),
        class_names=_class_names(classifier, classes),
        head=None if isinstance(classifier.head, ExclusiveClasses) else classifier.head.text,
        classes=classes,
        rows=rows,
        **({"model": ModelRecord.model_validate(classifier.model_facts)} if classifier.model_facts else {}),
    )


def samples_digest(shards: Sequence[Shard]) -> str:
    """A hash of the content of all samples."""
    return key_of([shard.digests for shard in shards])


def check_same_run(old: RunRecord, spec: Spec, fingerprint: str, digest: str, folder: Path) -> None:
    """Refuses a folder of another classifier, other samples or other settings; methods and metrics may be added."""
    pairs = {
        "another classifier": (old.classifier.fingerprint, fingerprint),
        "another condition": (old.spec.condition, spec.condition),
        "other samples": (old.samples.digest, digest),
        "another target": (old.spec.target, spec.target),
        "another seed": (old.spec.seed, spec.seed),
        "another shard size": (old.spec.shard, spec.shard),
        "another precision": (old.spec.precision, spec.precision),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise SnellenError(f"'{folder}' was made with {what} ({before}, now {now}); choose another --out")


def changed_plugins(old: RunRecord, methods: Sequence[Method], metrics: Sequence[Metric]) -> list[str]:
    """A sentence per method or metric whose code has changed since the run was made; its old units do not count."""
    before = old.spec.versions
    return [
        f"{label(plugin)} has changed since this run was made; its earlier {what} are not used"
        for plugins, what in ((methods, "maps"), (metrics, "scores"))
        for plugin in plugins
        if before.get(label(plugin), traits(plugin).version) != traits(plugin).version
    ]


def _class_names(classifier: Classifier, classes: int) -> tuple[str, ...] | None:
    if classifier.target_name is None:
        return tuple(classifier.classes) if classifier.classes else None
    return (*chosen_targets.class_names(classifier, classes), classifier.target_name)


def describe_samples(store: Store, samples: Samples, shards: Sequence[Shard], facts: Sequence[ShardFacts]) -> SamplesRecord:
    """One row per sample, and the names of the stored pictures of the first samples."""
    rows: list[SampleRow] = []
    pictures: dict[str, str] = {}
    for shard, shard_facts in zip(shards, facts, strict=True):
        rows += [
            SampleRow(
                sample=sample,
                label=stated if isinstance(stated := shard_facts.labels[index], int) else None,
                prediction=shard_facts.predictions[index],
                probability=shard_facts.probabilities[index],
                target=shard.targets[index],
                truth=shard_facts.truths[index],
                group=shard_facts.groups[index],
                **_number(shard_facts, index),
            )
            for index, sample in enumerate(shard.ids)
        ]
        pictures |= {sample: store.put_picture(png) for sample, png in zip(shard.ids, shard_facts.pictures, strict=False)}
    return SamplesRecord(
        count=len(samples), digest=samples_digest(shards), source=samples.describe(), rows=tuple(rows), pictures=pictures
    )


def _number(facts: ShardFacts, index: int) -> dict[str, float | None]:
    """The true number and the estimate, where the model estimates one; rows of other models do not store these."""
    estimate = facts.estimates[index]
    return {} if estimate is None else {"number": facts.numbers[index], "estimate": estimate}


def open_record(
    old: RunRecord | None,
    *,
    request: dict[str, Any] | None,
    spec: Spec,
    classifier: ClassifierRecord,
    samples: SamplesRecord,
    notes: Sequence[str],
    fitted: dict[str, FittedRecord],
    variants: dict[str, VariantRecord],
    units: Sequence[PlannedUnit],
    planned: Planned,
) -> RunRecord:
    """The record of a run that is planned and not yet computed.

    Args:
        old: The earlier record of the same folder; None for a new run.
        request: The settings of `snellen run`; None for a run made from Python objects.
        spec: What is computed.
        classifier: The classifier.
        samples: The samples.
        notes: Sentences for the report.
        fitted: By name of the fitted state.
        variants: By name of the variant.
        units: All units of the run.
        planned: The expected cost.
    """
    packages = versions()
    record = RunRecord(
        schema_version=SCHEMA,
        snellen=packages.get("snellen"),
        created=_now() if old is None else old.created,
        finished=None,
        request=request,
        seal=request_seal(request),
        spec=spec,
        classifier=classifier,
        samples=samples,
        machine=machine(),
        versions=dict(packages),
        git=revision(),
        notes=tuple(notes),
        fitted=fitted,
        variants=variants,
        units=tuple(units),
        planned=planned,
    )
    error = record.number_error()
    measured = {"accuracy": record.accuracy()} if error is None else {"accuracy": None, "error": error}
    return record.changed(samples=samples.changed(**measured))


def write_unit(
    store: Store, task: MissingUnit, result: UnitResult, variants: Callable[[Method, Metric], Mapping[str, str]]
) -> None:
    """Writes the maps and scores of a unit, then its record; `variants` are as for `missing_units`."""
    rows = []
    for scores in result.scores:
        curves = scores.curve.tolist() if scores.curve is not None else [None] * len(scores.ids)
        for sample_id, value, curve in zip(scores.ids, scores.values.tolist(), curves, strict=True):
            rows.append(
                {"sample": sample_id, "method": scores.method, "metric": scores.metric, "value": value, "curve": curve}
            )
    keys = {label(metric): metric_key(metric, variants(task.method, metric)) for metric in task.metrics}
    unit = UnitRecord(
        map_key=task.map_key,
        method=label(task.method),
        samples=task.shard.ids,
        maps=task.maps or store.put_maps(result.maps),
        scores=store.put_scores(rows),
        metrics={name: key for name, key in keys.items() if name in result.metric_costs},
        refused={name: Refusal(key=keys[name], problem=problem) for name, problem in result.refused.items()},
        metric_costs=result.metric_costs,
    )
    store.finish(task.key, unit if task.maps else unit.changed(cost=result.cost))


def close_record(
    store: Store,
    record: RunRecord,
    old: RunRecord | None,
    units: Mapping[str, UnitRecord],
    seconds: float,
    errors: Sequence[Failure],
) -> RunRecord:
    """Adds up the costs, writes the merged table of scores where nothing failed, and writes the record for the last time.

    Args:
        store: The run folder.
        record: The record of `open_record`.
        old: The earlier record of the same folder; None for a new run.
        units: The finished units by key.
        seconds: How long this call took.
        errors: The units and metrics that failed.
    """
    used = planned_units(record, units)
    costs = [cost for unit in used for cost in [unit.cost, *unit.metric_costs.values()] if cost]
    before = 0.0 if old is None or old.totals is None else old.totals.wall_seconds
    totals = Totals(
        forward=sum(cost.forward for cost in costs),
        backward=sum(cost.backward for cost in costs),
        shared_forward=sum(cost.shared_forward for cost in costs),
        shared_backward=sum(cost.shared_backward for cost in costs),
        model_seconds=sum(cost.model_seconds for cost in costs),
        seconds=sum(cost.seconds for cost in costs),
        wall_seconds=before + seconds,
    )
    closed = record.changed(errors=tuple(errors), totals=totals)
    if not errors:
        closed = closed.changed(merged=store.merge(score_files(record, units)), finished=_now())
    store.put_record(closed)
    return closed


def planned_units(record: RunRecord, units: Mapping[str, UnitRecord]) -> list[UnitRecord]:
    """The records of the units that the current spec asks for, in its order; older work in the folder is left out."""
    return [units[planned.unit] for planned in record.units if planned.unit in units]


def score_files(record: RunRecord, units: Mapping[str, UnitRecord]) -> list[tuple[str, tuple[str, ...]]]:
    """Score files with the metrics that count in each."""
    return [(units[planned.unit].scores, planned.metrics) for planned in record.units if planned.unit in units]


def joined_refusals(refused: Mapping[tuple[str, str], str]) -> list[str]:
    """A sentence per reason and the metrics that give it; `refused` has the reasons by method and metric."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for (method, metric), problem in refused.items():
        metrics.setdefault((method, problem), []).append(metric)
    methods: dict[tuple[str, str], list[str]] = {}
    for (method, problem), names in metrics.items():
        methods.setdefault((", ".join(names), problem), []).append(method)
    return [f"{names} cannot be scored on {', '.join(of)}: {problem}" for (names, problem), of in methods.items()]


def refusal_sentences(
    record: RunRecord, units: Mapping[str, UnitRecord], *, except_for: Collection[tuple[str, str]] = ()
) -> list[str]:
    """A sentence for every metric that cannot score a method's maps, except for some pairs of method and metric."""
    metrics = {metric.label for metric in record.spec.metrics}
    sentences = (
        f"{name} cannot be scored on {unit.method}: {refusal.problem}"
        for unit in planned_units(record, units)
        for name, refusal in unit.refused.items()
        if name in metrics and (unit.method, name) not in except_for
    )
    return list(dict.fromkeys(sentences))


def failure_sentence(record: RunRecord, folder: Path) -> str:
    """How much failed, and the first error."""
    errors = record.errors
    first = errors[0]
    whole = [error for error in errors if error.metric is None]
    what = f"{len(whole)} of {len(record.units)} units failed" if whole else f"{len(errors)} scores of shards failed"
    which = first.method + ("" if first.metric is None else f", scored by {first.metric},")
    return (
        f"{what}, the first being {which} from '{first.sample}' on ({first.problem}); everything else is stored in "
        f"'{folder}', and running the same command tries the failed ones again"
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
