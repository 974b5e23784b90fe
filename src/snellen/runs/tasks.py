"""What a run consists of: shards of samples, and the units that are still missing from the store."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.maps.fitted_state import methods_to_fit
from snellen.plugins.registry import label, spec, traits
from snellen.runs import plan as planning
from snellen.runs.record import PlannedUnit, UnitRecord
from snellen.runs.store import Store, key_of
from snellen.types import HasCacheKey, Method, Metric, Passes


@dataclass(frozen=True)
class Shard:
    """Some neighbouring samples by place; the pictures themselves are loaded where they are needed."""

    places: range
    ids: tuple[str, ...]
    digests: tuple[str, ...]
    targets: tuple[int, ...] = ()


@dataclass(frozen=True)
class MissingUnit:
    """A unit that is not in the store yet; `maps` names its maps when only metrics are missing."""

    key: str
    map_key: str
    method: Method
    metrics: tuple[Metric, ...]
    shard: Shard
    maps: str | None

    def passes(self, plan: planning.Plan) -> Passes:
        """What it costs, from a plan per image."""
        images = len(self.shard.ids)
        total = Passes() if self.maps else plan.passes[label(self.method), "maps"]
        for metric in self.metrics:
            total += plan.passes[label(self.method), label(metric)]
        return total * images


def cached_passes(tasks: Sequence[MissingUnit], plan: planning.Plan) -> Passes:
    """What sharing will spare: metrics of one unit, and methods on one shard, that need the very same passes."""
    spared = Passes()
    paid: set[Hashable] = set()

    def ask(key: Hashable, passes: Passes) -> None:
        nonlocal spared
        spared += passes if key in paid else Passes()
        paid.add(key)

    for task in tasks:
        images, name, place = len(task.shard.ids), label(task.method), task.shard.places.start
        if task.maps is None and isinstance(task.method, HasCacheKey):
            ask((place, task.method.cache_key()), plan.passes[name, "maps"] * images)
        for metric in task.metrics:
            for key, passes in plan.parts[name, label(metric)].items():
                everywhere = isinstance(key, tuple) and key[:1] == ("images",)
                ask((place if everywhere else task.key, key), passes * images)
    return spared


def split_into_shards(samples: Samples, size: int) -> list[Shard]:
    """The samples in shards of this size, each with the digests of its content."""
    if len(samples) == 0:
        raise SnellenError("there are no samples to explain; give a folder with images")
    ids = list(samples.ids)
    seen: set[str] = set()
    for sample_id in ids:
        if sample_id in seen:
            raise SnellenError(f"two samples are called '{sample_id}'; every sample needs an id of its own")
        seen.add(sample_id)
    shards = []
    for start in range(0, len(ids), size):
        places = range(start, min(start + size, len(ids)))
        shards.append(Shard(places, tuple(ids[place] for place in places), tuple(samples.digest(place) for place in places)))
    return shards


def missing_units(
    store: Store,
    shards: Sequence[Shard],
    methods: Sequence[Method],
    metrics: Sequence[Metric],
    facts: dict[str, Any],
    lessons: Mapping[str, str] | None = None,
    variants: Callable[[Method, Metric], Mapping[str, str]] = lambda method, metric: {},
) -> tuple[list[MissingUnit], list[PlannedUnit]]:
    """The tasks still to run, shard by shard so that methods share passes; and all units of the spec, method by method.

    A unit in the store counts for the metrics that it computed or refused under the same definition; the rest becomes a
    task. The maps of a method that learnt something count only with the very same `lessons`, and the scores of a metric that
    compares with relatives only with the very same `variants`; both are given by name as digests of their content.
    """
    have: dict[str, list[tuple[str, UnitRecord]]] = {}
    for key, unit in store.intact_units().items():
        have.setdefault(unit.map_key, []).append((key, unit))
    tasks: list[MissingUnit] = []
    units: list[tuple[int, int, PlannedUnit]] = []
    for shard in shards:
        for order, method in enumerate(methods):
            wanted = {label(one): metric_key(one, variants(method, one)) for one in metrics}
            taught = {lesson: (lessons or {})[lesson] for lesson in methods_to_fit(method)}
            map_key = key_of(
                {
                    **facts,
                    **({"lessons": taught} if taught else {}),
                    "method": [spec(method), traits(method).version],
                    "samples": [list(pair) for pair in zip(shard.ids, shard.digests, strict=True)],
                    "targets": shard.targets,
                }
            )
            left, maps = dict(wanted), None
            for key, unit in have.get(map_key, []):
                if not store.is_intact(key, unit):
                    continue
                maps = unit.maps
                known = unit.metrics | {name: refusal.key for name, refusal in unit.refused.items()}
                covered = [name for name, one in left.items() if known.get(name) == one]
                left = {name: one for name, one in left.items() if name not in covered}
                if covered or not wanted:
                    units.append((order, shard.places.start, PlannedUnit(unit=key, metrics=tuple(covered))))
            if left or maps is None:
                key = key_of([map_key, sorted(left.values())])
                tasks.append(
                    MissingUnit(key, map_key, method, tuple(one for one in metrics if label(one) in left), shard, maps)
                )
                units.append((order, shard.places.start, PlannedUnit(unit=key, metrics=tuple(left))))
    units.sort(key=lambda one: one[:2])
    return tasks, [one for _, _, one in units]


def metric_key(metric: Metric, variants: Mapping[str, str]) -> str:
    """Stands for a metric, its settings and its version, and for the relatives that it compares with, by their digests."""
    return key_of([spec(metric), traits(metric).version, *([dict(variants)] if variants else [])])


def common_key(classifier: Classifier, seed: int, compiled: bool) -> dict[str, Any]:
    """What all units of a run have in common and what would change their numbers."""
    return {
        "classifier": classifier.fingerprint,
        "precision": classifier.precision,
        "rows": [classifier.rows, classifier.gradient_rows],
        "compiled": compiled,
        "seed": seed,
    }
