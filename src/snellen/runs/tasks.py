"""What a run consists of: shards of samples, and the units that are not computed yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.maps.fitted_state import methods_to_fit
from snellen.maps.made_elsewhere import MapsMadeElsewhere
from snellen.plugins.registry import label, spec, traits
from snellen.runs import plan as planning
from snellen.runs.record import PlannedUnit, UnitRecord
from snellen.runs.store import Store, key_of
from snellen.types import HasCacheKey, Method, Metric, Passes


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples; their images are loaded where they are needed."""

    indices: range
    """Their numbers among the samples of the run."""
    ids: tuple[str, ...]
    """Of the samples."""
    digests: tuple[str, ...]
    """A hash of the content of each image."""
    targets: tuple[int, ...] = ()
    """The class that each map explains."""


@dataclass(frozen=True, kw_only=True)
class MissingUnit:
    """A unit that is not in the run folder yet."""

    key: str
    """Under which its record is stored."""
    map_key: str
    """A hash of all that its maps depend on."""
    method: Method
    metrics: tuple[Metric, ...]
    shard: Shard
    maps: str | None
    """The file of maps that an earlier unit computed; None where the maps are missing too."""

    def passes(self, plan: planning.Plan) -> Passes:
        """The passes of the unit."""
        images = len(self.shard.ids)
        total = Passes() if self.maps else plan.passes[label(self.method), "maps"]
        for metric in self.metrics:
            total += plan.passes[label(self.method), label(metric)]
        return total * images


def cached_passes(tasks: Sequence[MissingUnit], plan: planning.Plan) -> Passes:
    """The passes that the cache saves: metrics of a unit, and methods on a shard, may need the same ones."""
    saved = Passes()
    paid: set[Hashable] = set()

    def pay(key: Hashable, passes: Passes) -> None:
        nonlocal saved
        saved += passes if key in paid else Passes()
        paid.add(key)

    for task in tasks:
        images, name, first_index = len(task.shard.ids), label(task.method), task.shard.indices.start
        if task.maps is None and isinstance(task.method, HasCacheKey):
            pay((first_index, task.method.cache_key()), plan.passes[name, "maps"] * images)
        for metric in task.metrics:
            for key, passes in plan.parts[name, label(metric)].items():
                same_for_methods = isinstance(key, tuple) and key[:1] == ("images",)
                pay((first_index if same_for_methods else task.key, key), passes * images)
    return saved


def split_into_shards(samples: Samples, size: int) -> list[Shard]:
    """The samples in shards of this size, with a digest of every image."""
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
        indices = range(start, min(start + size, len(ids)))
        shards.append(Shard(indices, tuple(ids[start : start + size]), tuple(map(samples.digest, indices))))
    return shards


def missing_units(
    store: Store,
    shards: Sequence[Shard],
    methods: Sequence[Method],
    metrics: Sequence[Metric],
    facts: dict[str, Any],
    fitted_digests: Mapping[str, str] | None = None,
    variants: Callable[[Method, Metric], Mapping[str, str]] = lambda method, metric: {},
    made_elsewhere: Callable[[MapsMadeElsewhere, Shard], np.ndarray] | None = None,
) -> tuple[list[MissingUnit], list[PlannedUnit]]:
    """The units to compute, shard by shard so that methods share cached passes; and all units of the run by method.

    A stored unit counts for the metrics that it computed or refused under the same key; the others become a new unit.

    Args:
        store: The run folder.
        shards: With targets.
        methods: All methods of the run.
        metrics: All metrics of the run.
        facts: What `common_key` returns.
        fitted_digests: By name of the fitted state. Maps of a method count only with the same fitted state.
        variants: The digests of the variants that a metric compares the maps of a method with, by name. Scores count
            only with the same variants.
        made_elsewhere: Reads the maps of a shard that were made elsewhere; they are stored now, and never computed.
    """
    stored_units: dict[str, list[tuple[str, UnitRecord]]] = {}
    for key, unit in store.intact_units().items():
        stored_units.setdefault(unit.map_key, []).append((key, unit))
    tasks: list[MissingUnit] = []
    units: list[tuple[int, int, PlannedUnit]] = []
    for shard in shards:
        for order, method in enumerate(methods):
            metric_keys = {label(metric): metric_key(metric, variants(method, metric)) for metric in metrics}
            digests = {state: (fitted_digests or {})[state] for state in methods_to_fit(method)}
            map_key = key_of(
                {
                    **facts,
                    # An older word for fitted states, which the keys of stored runs hold.
                    **({"lessons": digests} if digests else {}),
                    **({"maps": method.digest} if isinstance(method, MapsMadeElsewhere) else {}),
                    "method": [spec(method), traits(method).version],
                    "samples": [list(pair) for pair in zip(shard.ids, shard.digests, strict=True)],
                    "targets": shard.targets,
                }
            )
            left, maps, covered_maps = dict(metric_keys), None, False
            for key, unit in stored_units.get(map_key, []):
                if not store.is_intact(key, unit):
                    continue
                maps, covered_maps = unit.maps, True
                stored = unit.metrics | {name: refusal.key for name, refusal in unit.refused.items()}
                covered = [name for name, metric_hash in left.items() if stored.get(name) == metric_hash]
                left = {name: metric_hash for name, metric_hash in left.items() if name not in covered}
                if covered or not metric_keys:
                    units.append((order, shard.indices.start, PlannedUnit(unit=key, metrics=tuple(covered))))
            if maps is None and isinstance(method, MapsMadeElsewhere) and made_elsewhere is not None:
                maps = store.put_maps(made_elsewhere(method, shard))
            if left or not covered_maps:
                key = key_of([map_key, sorted(left.values())])
                new = tuple(metric for metric in metrics if label(metric) in left)
                tasks.append(MissingUnit(key=key, map_key=map_key, method=method, metrics=new, shard=shard, maps=maps))
                units.append((order, shard.indices.start, PlannedUnit(unit=key, metrics=tuple(left))))
    units.sort(key=lambda unit: unit[:2])
    return tasks, [unit for _, _, unit in units]


def metric_key(metric: Metric, variants: Mapping[str, str]) -> str:
    """A hash of a metric, its settings and version, and of the variants that it compares with, given by their digests."""
    return key_of([spec(metric), traits(metric).version, *([dict(variants)] if variants else [])])


def common_key(classifier: Classifier, seed: int, compiled: bool) -> dict[str, Any]:
    """The facts about classifier and seed that enter the key of every unit."""
    return {
        "classifier": classifier.fingerprint,
        "precision": classifier.precision,
        "rows": [classifier.rows, classifier.gradient_rows],
        "compiled": compiled,
        "seed": seed,
    }
