"""Makes and writes the records of a run and its units."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from snellen.classifier import Classifier
from snellen.classifier.heads import ExclusiveClasses
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.plugins.registry import label, traits
from snellen.runs import chosen_targets
from snellen.runs.foreign_code import request_seal
from snellen.runs.kept_maps import KeepMaps, extreme_samples, sampled_maps
from snellen.runs.machine import machine, revision, versions
from snellen.runs.planned_units import PlannedUnits
from snellen.runs.record import (
    SCHEMA,
    ClassifierRecord,
    EngineRecord,
    Failure,
    FittedRecord,
    ModelRecord,
    Planned,
    PlanRecord,
    RunRecord,
    SamplesRecord,
    Spec,
    Totals,
    VariantRecord,
)
from snellen.runs.sample_table import SampleTable
from snellen.runs.segments import FinishedUnit
from snellen.runs.store import Store
from snellen.runs.tasks import MissingUnit, Shard, metric_key
from snellen.runs.unit import ShardFacts, UnitResult
from snellen.runs.unit_writer import UnitFacts, UnitWriter
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
    """A hash of the content of all samples: of their digests in lists, one per shard, as JSON."""
    content = hashlib.sha256(b"[")
    for number, shard in enumerate(shards):
        content.update(("," if number else "").encode() + json.dumps(shard.digests, separators=(",", ":")).encode())
    content.update(b"]")
    return content.hexdigest()[:20]


def check_same_run(old: RunRecord, spec: Spec, fingerprint: str, digest: str, folder: object) -> None:
    """Refuses a folder of another classifier, other samples or other settings; methods and metrics may be added."""
    pairs = {
        "another classifier": (old.classifier.fingerprint, fingerprint),
        "another condition": (old.spec.condition, spec.condition),
        "other samples": (old.samples.digest, digest),
        "another target": (old.spec.target, spec.target),
        "another seed": (old.spec.seed, spec.seed),
        "another shard size": (old.spec.shard, spec.shard),
        "another order of samples": (old.spec.order or "that of the folder", spec.order or "that of the folder"),
        "another precision": (old.spec.precision, spec.precision),
        "another setting of --fold-norms": (old.spec.fold_norms, spec.fold_norms),
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
    """The table of samples, and the names of the stored pictures of the first samples."""
    pictures: dict[str, str] = {}
    for shard, shard_facts in zip(shards, facts, strict=True):
        if shard_facts.pictures:
            pictures |= {
                sample: store.put_picture(png) for sample, png in zip(shard.ids, shard_facts.pictures, strict=False)
            }

    def column(name: str) -> list[Any]:
        return [value for shard_facts in facts for value in getattr(shard_facts, name)]

    rows = SampleTable.of_columns(
        {
            "sample": samples.ids,
            "label": [stated if isinstance(stated, int) else None for stated in column("labels")],
            "prediction": column("predictions"),
            "probability": column("probabilities"),
            "target": [target for shard in shards for target in shard.targets],
            "truth": column("truths"),
            "group": column("groups"),
            "number": column("numbers"),
            "estimate": column("estimates"),
        }
    )
    return SamplesRecord(
        count=len(samples),
        digest=samples_digest(shards),
        source=samples.describe(),
        table=store.put_table(rows.as_bytes()),
        pictures=pictures,
    ).with_rows(rows)


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
    plan: PlanRecord,
    planned: Planned,
    engine: EngineRecord | None,
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
        plan: Of all units of the run.
        planned: The expected cost.
        engine: How the engine was chosen; None where a run of an older version goes on.
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
        plan=plan,
        planned=planned,
    )
    if engine is not None:
        record = record.changed(engine=engine)
    error = record.number_error()
    measured = {"accuracy": record.accuracy()} if error is None else {"accuracy": None, "error": error}
    return record.changed(samples=samples.changed(**measured))


def describe_plan(store: Store, units: PlannedUnits) -> PlanRecord:
    """Writes the list of planned units."""
    return PlanRecord(units=len(units), table=store.put_table(units.as_bytes()))


def keep_maps_fields(old: RunRecord | None, stated: str | None) -> dict[str, Any]:
    """How a spec says which maps are kept: as stated, or as in the run that is continued; nothing where all ever were."""
    before: list[str] = [] if old is None else [*old.spec.keep_maps_before, old.spec.keep_maps]
    now = stated or (before[-1] if before else "all")
    others = tuple(dict.fromkeys(setting for setting in before if setting != now))
    return {**({} if now == "all" else {"keep_maps": now}), **({"keep_maps_before": others} if others else {})}


def unit_facts(
    task: MissingUnit, variants: Callable[[Method, Metric], Mapping[str, str]], keep_maps: KeepMaps, seed: int
) -> UnitFacts:
    """What is known about a unit before it is computed.

    Args:
        task: The unit.
        variants: As for `missing_units`.
        keep_maps: Which maps the run keeps.
        seed: Of the run.
    """
    return UnitFacts(
        key=task.key,
        map_key=task.map_key,
        method=label(task.method),
        start=task.shard.indices.start,
        count=len(task.shard.indices),
        metric_keys={label(metric): metric_key(metric, variants(task.method, metric)) for metric in task.metrics},
        maps=None if task.stored is None else task.stored.maps,
        computes_maps=not task.has_maps,
        sampled=sampled_maps(keep_maps, task.shard.ids, task.shard.indices.start, seed),
        keeps_extremes=keep_maps == "some",
    )


def write_result(writer: UnitWriter, facts: UnitFacts, result: UnitResult) -> FinishedUnit:
    """Writes the result of a unit, in the process that computed it or in another; `Store.commit` takes what it returns."""
    kept = _kept_samples(facts, result)
    is_kept = facts.maps is None and kept != ()
    return writer.write(
        facts,
        maps=(result.maps if kept is None else result.maps[list(kept)]) if is_kept else None,
        kept=kept,
        scores={
            scores.metric: (scores.values.numpy(), None if scores.curve is None else scores.curve.numpy())
            for scores in result.scores
        },
        cost=result.cost if facts.computes_maps else None,
        metric_costs=result.metric_costs,
        refused=result.refused,
    )


def _kept_samples(facts: UnitFacts, result: UnitResult) -> tuple[int, ...] | None:
    """The samples of a unit whose maps are kept; None for all."""
    if facts.sampled is None:
        return None
    values = {scores.metric: scores.values.numpy() for scores in result.scores}
    kept = {*facts.sampled, *(extreme_samples(values) if facts.keeps_extremes else ())}
    return None if len(kept) == facts.count else tuple(sorted(kept))


def close_record(
    store: Store, record: RunRecord, old: RunRecord | None, seconds: float, errors: Sequence[Failure]
) -> RunRecord:
    """Adds up the costs, writes the merged table of scores where nothing failed, and writes the record for the last time.

    Args:
        store: The run folder.
        record: The record of `open_record`.
        old: The earlier record of the same folder; None for a new run.
        seconds: How long this call took.
        errors: The units and metrics that failed.
    """
    store.store_index()
    costs = [cost for unit in planned_units(record, store) for cost in [unit.cost, *unit.metric_costs.values()] if cost]
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
        is_same = old is not None and old.units == record.units and store.is_merged(old.merged)
        merged = (
            old.merged
            if old is not None and is_same
            else store.merge(scored_units(record, store), record.samples.rows.names)
        )
        closed = closed.changed(merged=merged, finished=_now())
    store.put_record(closed)
    return closed


def planned_units(record: RunRecord, store: Store) -> Iterator[FinishedUnit]:
    """The finished units that the current spec asks for, in its order; older work in the folder is left out."""
    return (unit for unit, _ in scored_units(record, store))


def scored_units(record: RunRecord, store: Store) -> Iterator[tuple[FinishedUnit, tuple[str, ...]]]:
    """The same, each with the metrics that count."""
    for key, metrics in record.units.pairs():
        unit = store.unit(key)
        if unit is not None:
            yield unit, metrics


def merged_units(pairs: Iterable[tuple[str, tuple[str, ...]]]) -> PlannedUnits:
    """Each unit once, with all metrics that are read from it; pairs are those of `PlannedUnits`."""
    metrics: dict[str, tuple[str, ...]] = {}
    for key, labels in pairs:
        metrics[key] = tuple(dict.fromkeys((*metrics.get(key, ()), *labels)))
    return PlannedUnits.of(metrics.items())


def joined_refusals(refused: Mapping[tuple[str, str], str]) -> list[str]:
    """A sentence per reason and the metrics that give it; `refused` has the reasons by method and metric."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for (method, metric), problem in refused.items():
        metrics.setdefault((method, problem), []).append(metric)
    methods: dict[tuple[str, str], list[str]] = {}
    for (method, problem), names in metrics.items():
        methods.setdefault((", ".join(names), problem), []).append(method)
    return [f"{names} cannot be scored on {', '.join(of)}: {problem}" for (names, problem), of in methods.items()]


def refusal_sentences(record: RunRecord, store: Store, *, except_for: Collection[tuple[str, str]] = ()) -> list[str]:
    """A sentence for every metric that cannot score a method's maps, except for some pairs of method and metric."""
    metrics = {metric.label for metric in record.spec.metrics}
    sentences = (
        f"{name} cannot be scored on {unit.method}: {refusal.problem}"
        for unit in planned_units(record, store)
        for name, refusal in unit.refused.items()
        if name in metrics and (unit.method, name) not in except_for
    )
    return list(dict.fromkeys(sentences))


def failure_sentence(record: RunRecord, folder: object) -> str:
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
