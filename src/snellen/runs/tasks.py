"""What a run consists of: shards of samples, and the units that are not computed yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from snellen.classifier import Classifier
from snellen.classifier.engines.engine import EngineName
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.maps.fitted_state import methods_to_fit
from snellen.maps.made_elsewhere import MapsMadeElsewhere
from snellen.plugins.registry import label, spec, traits
from snellen.runs import plan as planning
from snellen.runs.planned_units import PlannedUnits
from snellen.runs.segments import FinishedUnit
from snellen.runs.store import Store, key_of
from snellen.types import HasCacheKey, Method, Metric, Passes

MAPS = "maps"
"""What the part of a unit that makes maps is called beside the labels of metrics."""

PICTURE_SECONDS = 0.002
"""Expected seconds per image of what needs no passes, before anything was measured."""


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples; their images are loaded where they are needed."""

    indices: range
    """Their numbers among the samples of the run."""
    samples: Samples = field(repr=False)
    """All samples of the run."""
    targets: tuple[int, ...] = ()
    """The class that each map explains."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the samples."""
        return tuple(self.samples.ids[self.indices.start : self.indices.stop])

    @property
    def digests(self) -> tuple[str, ...]:
        """A hash of the content of each image."""
        return tuple(self.samples.digests[self.indices.start : self.indices.stop])


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
    stored: FinishedUnit | None
    """An earlier unit that has its maps; None where the maps are missing too."""
    read_maps: Callable[[], np.ndarray] | None = None
    """Reads maps that were made elsewhere, which are not computed."""
    recomputed: bool = False
    """Whether its maps were computed before and not kept."""

    @property
    def has_maps(self) -> bool:
        """Whether its maps need not be computed."""
        return self.stored is not None or self.read_maps is not None

    def passes(self, plan: planning.Plan) -> Passes:
        """The passes of the unit."""
        images = len(self.shard.indices)
        total = Passes() if self.has_maps else plan.passes[label(self.method), "maps"]
        for metric in self.metrics:
            total += plan.passes[label(self.method), label(metric)]
        return total * images

    def seconds(self, plan: planning.Plan, pass_seconds: planning.PassSeconds) -> dict[Hashable, float]:
        """Expected seconds by (method, "maps") and (method, metric), before anything was measured."""
        parts = [label(metric) for metric in self.metrics] + ([] if self.has_maps else [MAPS])
        name, images = label(self.method), len(self.shard.indices)
        return {(name, part): images * (PICTURE_SECONDS + pass_seconds.seconds(plan.passes[name, part])) for part in parts}

    def map_bytes(self, shape: tuple[int, ...]) -> int:
        """How many bytes its maps have; `shape` is that of an image: channels, height, width."""
        return 4 * len(self.shard.indices) * shape[-2] * shape[-1]


def cached_passes(tasks: Sequence[MissingUnit], plan: planning.Plan) -> Passes:
    """The passes that the cache saves: metrics of a unit, and methods on a shard, may need the same ones."""
    saved = Passes()
    paid: set[Hashable] = set()

    def pay(key: Hashable, passes: Passes) -> None:
        nonlocal saved
        saved += passes if key in paid else Passes()
        paid.add(key)

    for task in tasks:
        images, name, first_index = len(task.shard.indices), label(task.method), task.shard.indices.start
        if not task.has_maps and isinstance(task.method, HasCacheKey):
            pay((first_index, task.method.cache_key()), plan.passes[name, "maps"] * images)
        for metric in task.metrics:
            for key, passes in plan.parts[name, label(metric)].items():
                same_for_methods = isinstance(key, tuple) and key[:1] == ("images",)
                pay((first_index if same_for_methods else task.key, key), passes * images)
    return saved


def passes_of_shard(shard: Shard, methods: Sequence[Method], metrics: Sequence[Metric], plan: planning.Plan) -> Passes:
    """The passes that all methods and metrics make on a shard, less those that the cache saves."""
    tasks = [
        MissingUnit(key=label(method), map_key="", method=method, metrics=tuple(metrics), shard=shard, stored=None)
        for method in methods
    ]
    return sum((task.passes(plan) for task in tasks), Passes()) - cached_passes(tasks, plan)


def split_into_shards(samples: Samples, size: int) -> list[Shard]:
    """The samples in shards of this size, with a digest of every image."""
    if len(samples) == 0:
        raise SnellenError("there are no samples to explain; give a folder with images")
    if (twice := samples.ids.duplicate()) is not None:
        raise SnellenError(f"two samples are called '{twice}'; every sample needs an id of its own")
    count = len(samples)
    return [Shard(range(start, min(start + size, count)), samples) for start in range(0, count, size)]


def missing_units(
    store: Store,
    shards: Sequence[Shard],
    methods: Sequence[Method],
    metrics: Sequence[Metric],
    facts: dict[str, Any],
    fitted_digests: Mapping[str, str] | None = None,
    variants: Callable[[Method, Metric], Mapping[str, str]] = lambda method, metric: {},
    made_elsewhere: Callable[[MapsMadeElsewhere, Shard], np.ndarray] | None = None,
    chosen_metrics: Mapping[str, Collection[str]] | None = None,
) -> tuple[list[MissingUnit], PlannedUnits]:
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
        chosen_metrics: By label of a method, the labels of the metrics to compute now; all of them where None.
    """
    tasks: list[MissingUnit] = []
    planned: list[list[tuple[str, tuple[str, ...]]]] = [[] for _ in methods]
    metric_keys = [{label(metric): metric_key(metric, variants(method, metric)) for metric in metrics} for method in methods]
    method_facts = [_method_facts(method, facts, fitted_digests or {}) for method in methods]
    for shard in shards:
        samples = [list(pair) for pair in zip(shard.ids, shard.digests, strict=True)]
        for order, method in enumerate(methods):
            chosen = metric_keys[order]
            if chosen_metrics is not None:
                names = chosen_metrics.get(label(method), ())
                chosen = {name: metric_hash for name, metric_hash in chosen.items() if name in names}
                if not chosen:
                    continue
            map_key = key_of({**method_facts[order], "samples": samples, "targets": shard.targets})
            left, stored, is_known = dict(chosen), None, False
            for unit in store.units_with_maps(map_key):
                if not store.is_intact(unit):
                    continue
                is_known = True
                if unit.has_all_maps:
                    stored = unit
                done = {**unit.metrics, **{name: refusal.key for name, refusal in unit.refused.items()}}
                covered = [name for name, metric_hash in left.items() if done.get(name) == metric_hash]
                left = {name: metric_hash for name, metric_hash in left.items() if name not in covered}
                if covered or not chosen:
                    planned[order].append((unit.key, tuple(covered)))
            if not left and is_known:
                continue
            is_dropped = is_known and stored is None
            if stored is not None and not store.is_intact(stored, compare=True):
                stored = None
            read_maps = None
            if stored is None and isinstance(method, MapsMadeElsewhere) and made_elsewhere is not None:
                read_maps = partial(made_elsewhere, method, shard)
            key = key_of([map_key, sorted(left.values())])
            tasks.append(
                MissingUnit(
                    key=key,
                    map_key=map_key,
                    method=method,
                    metrics=tuple(metric for metric in metrics if label(metric) in left),
                    shard=shard,
                    stored=stored,
                    read_maps=read_maps,
                    recomputed=is_dropped and read_maps is None,
                )
            )
            planned[order].append((key, tuple(left)))
    return tasks, PlannedUnits.of(pair for pairs in planned for pair in pairs)


def _method_facts(method: Method, facts: dict[str, Any], fitted_digests: Mapping[str, str]) -> dict[str, Any]:
    """What the key of maps holds beside samples and targets."""
    digests = {state: fitted_digests[state] for state in methods_to_fit(method)}
    return {
        **facts,
        # An older word for fitted states, which the keys of stored runs hold.
        **({"lessons": digests} if digests else {}),
        **({"maps": method.digest} if isinstance(method, MapsMadeElsewhere) else {}),
        "method": [spec(method), traits(method).version],
    }


def metric_key(metric: Metric, variants: Mapping[str, str]) -> str:
    """A hash of a metric, its settings and version, and of the variants that it compares with, given by their digests."""
    return key_of([spec(metric), traits(metric).version, *([dict(variants)] if variants else [])])


def common_key(classifier: Classifier, seed: int, engine: EngineName) -> dict[str, Any]:
    """The facts about classifier and seed that enter the key of every unit.

    Engines that are newer than the keys of stored runs are a further fact.
    """
    return {
        "classifier": classifier.fingerprint,
        "precision": classifier.precision,
        "rows": [classifier.rows, classifier.gradient_rows],
        "compiled": engine == "compiled",
        "seed": seed,
        **({"fold_norms": True} if classifier.folds_norms else {}),
        **({} if engine in ("eager", "compiled") else {"engine": engine}),
    }
