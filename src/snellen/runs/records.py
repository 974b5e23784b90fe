"""What is written about a run: the record of its units and its own, from the first look to the closing sums."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.plugins.registry import label
from snellen.runs.machine import machine, revision, versions
from snellen.runs.store import SCHEMA, Store, key_of
from snellen.runs.tasks import Shard, Task, metric_key
from snellen.runs.trusting import seal_of
from snellen.runs.unit import Result, Seen
from snellen.types import Method, Metric

Record = dict[str, Any]


def opened(
    classifier: Classifier, samples: Samples, shards: Sequence[Shard], spec: Record, request: Record | None
) -> Record:
    """The record of a run of which only the request is known."""
    known = versions()
    return {
        "schema": SCHEMA,
        "snellen": known.get("snellen"),
        "created": _now(),
        "finished": None,
        "request": request,
        "seal": seal_of(request),
        "spec": spec,
        "classifier": {
            "name": classifier.name,
            "fingerprint": classifier.fingerprint,
            "mean": classifier.mean.flatten().tolist(),
            "std": classifier.std.flatten().tolist(),
            "outputs": classifier.outputs,
            "device": str(classifier.device),
            "names": list(classifier.classes) if classifier.classes else None,
        },
        "samples": {
            "count": len(samples),
            "digest": key_of([shard.digests for shard in shards]),
            "source": samples.describe(),
        },
        "machine": machine(),
        "versions": known,
        "git": revision(),
        "notes": [*samples.notes, *(f"skipped '{name}': {reason}" for name, reason in samples.skipped)],
    }


def refuse_another(old: Record, new: Record, folder: Path) -> None:
    """A folder belongs to one classifier, one set of samples and one way to compute; methods and metrics may grow."""
    pairs = {
        "another classifier": (old["classifier"]["fingerprint"], new["classifier"]["fingerprint"]),
        "another condition": (old["spec"].get("condition"), new["spec"]["condition"]),
        "other samples": (old["samples"]["digest"], new["samples"]["digest"]),
        "another target": (old["spec"]["target"], new["spec"]["target"]),
        "another seed": (old["spec"]["seed"], new["spec"]["seed"]),
        "another shard size": (old["spec"]["shard"], new["spec"]["shard"]),
        "another precision": (old["spec"]["precision"], new["spec"]["precision"]),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise SnellenError(f"'{folder}' was made with {what} ({before}, now {now}); choose another --out")


def sample_facts(store: Store, shards: Sequence[Shard], seen: Sequence[Seen]) -> Record:
    """One row per sample, and the names of the pictures that the store keeps of the first ones."""
    rows: list[Record] = []
    pictures: dict[str, str] = {}
    names = ("sample", "label", "prediction", "probability", "target", "truth", "group")
    for shard, look in zip(shards, seen, strict=True):
        columns = look.labels, look.predictions, look.probabilities, shard.targets, look.truths, look.groups
        rows += [dict(zip(names, one, strict=True)) for one in zip(shard.ids, *columns, strict=True)]
        pictures |= {one: store.put_picture(png) for one, png in zip(shard.ids, look.pictures, strict=False)}
    return {"rows": rows, "pictures": pictures}


def keep(store: Store, task: Task, result: Result, variants: Callable[[Method, Metric], Mapping[str, str]]) -> None:
    """Writes what a unit found; its record comes last."""
    rows = []
    for scores in result.scores:
        curves = scores.curve.tolist() if scores.curve is not None else [None] * len(scores.ids)
        for one, value, curve in zip(scores.ids, scores.values.tolist(), curves, strict=True):
            rows.append({"sample": one, "method": scores.method, "metric": scores.metric, "value": value, "curve": curve})
    keys = {label(one): metric_key(one, variants(task.method, one)) for one in task.metrics}
    record = {
        "map_key": task.map_key,
        "method": label(task.method),
        "samples": list(task.shard.ids),
        "maps": task.maps or store.put_maps(result.maps),
        "scores": store.put_scores(rows),
        "metrics": {name: key for name, key in keys.items() if name in result.metric_costs},
        "refused": {name: {"key": keys[name], "problem": problem} for name, problem in result.refused.items()},
        "metric_costs": result.metric_costs,
    }
    if task.maps is None:
        record["cost"] = result.cost
    store.finish(task.key, record)


def close(store: Store, record: Record, old: Record | None, units: Mapping[str, Record], seconds: float) -> None:
    """Adds up, writes the merged table when all is there, and writes the record for the last time."""
    costs = [
        cost for unit in wanted_units(record, units) for cost in [unit.get("cost"), *unit["metric_costs"].values()] if cost
    ]
    names = ("forward", "backward", "shared_forward", "shared_backward", "model_seconds", "seconds")
    record["totals"] = {name: sum(cost[name] for cost in costs) for name in names}
    before = (old or {}).get("totals", {}).get("wall_seconds", 0.0)
    record["totals"]["wall_seconds"] = before + seconds
    if not record["errors"]:
        record["merged"] = store.merge(score_files(record, units))
        record["finished"] = _now()
    store.put_record(record)


def wanted_units(record: Record, units: Mapping[str, Record]) -> list[Record]:
    """The records of the units that the current spec asks for, in its order; older work in the folder is left out."""
    return [units[one["unit"]] for one in record["units"] if one["unit"] in units]


def score_files(record: Record, units: Mapping[str, Record]) -> list[tuple[str, list[str]]]:
    """Score files with the metrics that count in each."""
    return [(units[one["unit"]]["scores"], one["metrics"]) for one in record["units"] if one["unit"] in units]


def refusals(record: Record, units: Mapping[str, Record]) -> list[str]:
    """A sentence for every metric that cannot score a method's maps."""
    wanted = {one["label"] for one in record["spec"]["metrics"]}
    sentences = (
        f"{name} cannot be scored on {unit['method']}: {one['problem']}"
        for unit in wanted_units(record, units)
        for name, one in unit.get("refused", {}).items()
        if name in wanted
    )
    return list(dict.fromkeys(sentences))


def failure(record: Record, folder: Path) -> str:
    """How much failed, by the example of the first error."""
    errors = record["errors"]
    first = errors[0]
    whole = [one for one in errors if "metric" not in one]
    what = f"{len(whole)} of {len(record['units'])} units failed" if whole else f"{len(errors)} scores of shards failed"
    which = first["method"] + (f", scored by {first['metric']}," if "metric" in first else "")
    return (
        f"{what}, the first being {which} from '{first['sample']}' on ({first['problem']}); everything else is kept in "
        f"'{folder}', and running the same command tries the failed ones again"
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
