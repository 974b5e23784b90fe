"""evaluate() -> Run: the only loop. Look at every sample, refuse what cannot work, plan, then run what is not there yet."""

from __future__ import annotations

import datetime
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.registry import CONDITIONS, label
from snellen.runs import learning
from snellen.runs import plan as planning
from snellen.runs import training as kin
from snellen.runs.executors import Call, run_all
from snellen.runs.machine import machine, revision, versions
from snellen.runs.progress import Observer, default_observer, duration
from snellen.runs.run import Run
from snellen.runs.store import SCHEMA, Store, key_of
from snellen.runs.tasks import Shard, Task, cut, identity, metric_key, missing, saved
from snellen.runs.training import Siblings, Train
from snellen.runs.unit import Look, Result, Seen, Shipped, Unit
from snellen.samples import Samples, as_samples, under
from snellen.speed import repays
from snellen.types import Condition, Method, Metric, Passes, Recipe

R = TypeVar("R")

PICTURES = 12
"""How many photographs a run keeps for its report."""


@dataclass(frozen=True)
class Options:
    """How to compute, as opposed to what. Only `shard` and `compile` can move a number, and only within float tolerance."""

    shard: int = 16
    workers: int = 0
    threads: int | None = None
    compile: bool | None = None
    request: dict[str, Any] | None = None


def evaluate(
    classifier: Any,
    samples: Any,
    *,
    methods: Sequence[Any],
    metrics: Sequence[Any],
    target: str | int = "predicted",
    condition: Any = None,
    seed: int = 0,
    out: str | Path | None = None,
    options: Options | None = None,
    executor: Executor | None = None,
    observer: Observer | None = None,
    recipe: Any = None,
    training: Any = None,
    checkpoints: Any = None,
) -> Run:
    """Explains every sample by every method, scores the maps by every metric, and keeps all of it in a run folder.

    Calling it again with the same folder continues: finished units are never repeated, new methods and metrics are added.
    Without `out` the folder lives as long as the Run. A `condition` such as `rotation(degrees=45)` changes all pictures
    first. `executor` is anything that is a `concurrent.futures.Executor`. Metrics that compare with other models need a
    `recipe` (see `types.Recipe`), which trains them on the labelled pictures of `training`, or `checkpoints`, a folder of
    state dicts that were saved while the classifier was trained.
    """
    if (recipe is None) != (training is None):
        raise SnellenError("a recipe and training pictures belong together: give --recipe and --training, or neither")
    store = Store(Path(tempfile.mkdtemp(prefix="snellen-") if out is None else out))
    known = classifier if isinstance(classifier, Classifier) else Classifier(classifier)
    chosen = None if condition is None else CONDITIONS.parse(condition)
    plain = as_samples(samples, geometry=known.geometry, channels=known.channels, classes=known.classes)
    job = _Job(
        store=store,
        classifier=known,
        samples=plain if chosen is None else under(plain, chosen, seed=seed),
        methods=planning.parse_methods(methods),
        metrics=planning.parse_metrics(metrics),
        target=target,
        condition=chosen,
        seed=seed,
        options=options or Options(),
        executor=executor,
        observer=observer or default_observer(),
        recipe=None if recipe is None else kin.find_recipe(recipe),
        training=None if training is None else kin.find_training(training, known),
        checkpoints={} if checkpoints is None else kin.find_checkpoints(checkpoints, known),
    )
    given = dict(known.learned)
    with store.writing():
        try:
            job.run()
        finally:
            job.observer.end()
            known.learned = given  # what this run's samples taught is not to be taken for what the next one's teach
    return Run(store.folder, temporary=out is None)


@dataclass(frozen=True)
class _Job:
    store: Store
    classifier: Classifier
    samples: Samples
    methods: list[Method]
    metrics: list[Metric]
    target: str | int
    condition: Condition | None
    seed: int
    options: Options
    executor: Executor | None
    observer: Observer
    recipe: Recipe | None
    training: Samples | None
    checkpoints: Mapping[str, nn.Module]

    def run(self) -> None:
        started = time.perf_counter()
        old = self.store.record()
        shards = cut(self.samples, self.options.shard)
        record = self._record(shards)
        for note in record["notes"]:
            self.observer.note(note)
        if old is not None:
            _refuse_another(old, record, self.store.folder)
            record["created"] = old["created"]

        self.classifier.use_compiled = False
        inputs = self.classifier.to_inputs(self.samples[0].image[None])
        classes = self.classifier.check(inputs)
        rows = self.classifier.rows_for(inputs)
        record["classifier"] |= {"classes": classes, "rows": rows}
        planning.check_needs(self.classifier, self.methods, inputs)
        self._check_met(labels=True)
        labels = () if self.training is None else kin.labels_of(self.training, self.classifier, classes)
        shipped = Shipped(self.classifier)
        seen = self._look(shipped, shards)
        self._check_met(labels=any(one is not None for look in seen for one in look.labels))
        shards = [self._aim(shard, look, classes) for shard, look in zip(shards, seen, strict=True)]
        record["samples"] |= self._sample_facts(shards, seen)
        record["spec"]["metrics"] = [planning.describe_metric(one, seen[0].size, self.classifier) for one in self.metrics]
        record["lessons"] = self._learn()
        if record["lessons"]:
            shipped = Shipped(self.classifier)
        plan = planning.planned(self.classifier, self.methods, self.metrics, seen[0].size)
        total = sum(plan.passes.values(), Passes()) * len(self.samples)
        pace = planning.measure_pace(self.classifier, inputs, gradients=total.backward > 0)
        lessons = {name: one["digest"] for name, one in record["lessons"].items()}
        siblings = self._relatives(shipped, labels, lessons, self._expected(pace, total))
        record["relatives"] = siblings.facts

        compiled = bool(old["spec"]["compiled"]) if old is not None else self._worth_compiling(pace, total)
        record["spec"]["compiled"] = compiled
        tasks, record["units"] = missing(
            self.store,
            shards,
            self.methods,
            self.metrics,
            identity(self.classifier, self.seed, compiled),
            {lesson: facts["digest"] for lesson, facts in record["lessons"].items()},
            siblings.digests,
        )
        record["planned"] = self._announce(tasks, plan, inputs, compiled, pace, len(record["units"])) | _counts(total)
        self.store.put_record(record)

        record["errors"] = self._compute(shipped, siblings, tasks, plan, compiled)
        self._close(record, old, time.perf_counter() - started)

    # Before computing ------------------------------------------------------------------------------------------------

    def _record(self, shards: list[Shard]) -> dict[str, Any]:
        classifier = self.classifier
        return {
            "schema": SCHEMA,
            "snellen": versions().get("snellen"),
            "created": _now(),
            "finished": None,
            "request": self.options.request,
            "spec": {
                "methods": [planning.describe_method(one) for one in self.methods],
                "metrics": [],
                "target": self.target,
                "condition": None if self.condition is None else label(self.condition),
                "seed": self.seed,
                "shard": self.options.shard,
                "precision": classifier.precision,
            },
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
                "count": len(self.samples),
                "digest": key_of([shard.digests for shard in shards]),
                "source": self.samples.describe(),
            },
            "machine": machine(),
            "versions": versions(),
            "git": revision(),
            "notes": [*self.samples.notes, *(f"skipped '{name}': {reason}" for name, reason in self.samples.skipped)],
        }

    def _look(self, shipped: Shipped, shards: list[Shard]) -> list[Seen]:
        """Loads everything once, so that a broken image or a wrong label is met before any method runs."""
        self.observer.begin("looking at the images", Passes(forward=len(self.samples)), len(shards))
        calls = (
            (
                str(place),
                Look(
                    shipped,
                    self.samples.take(list(shard.places)),
                    shard.digests,
                    max(0, PICTURES - shard.places.start),
                    self._threads(),
                ),
            )
            for place, shard in enumerate(shards)
        )
        seen: dict[int, Seen] = {}
        for key, answer in self._everywhere(calls, lambda _: "looking at the images"):
            if isinstance(answer, Exception):
                raise answer
            seen[int(key)] = answer
            self.observer.finished(Passes(forward=len(answer.labels)) if self._elsewhere() else Passes())
        self.observer.end()
        return [seen[place] for place in range(len(shards))]

    def _aim(self, shard: Shard, look: Seen, classes: int) -> Shard:
        """The shard with the class that each of its maps is to explain."""
        for one, known in zip(shard.ids, look.labels, strict=True):
            if known is not None and not 0 <= known < classes:
                raise SnellenError(f"'{one}' has label {known}, but '{self.classifier.name}' has classes 0 to {classes - 1}")
        planning.check_truth(self.metrics, shard.ids, look.truths)
        return replace(shard, targets=planning.resolve_targets(self.target, self.classifier, classes, shard.ids, look))

    def _sample_facts(self, shards: list[Shard], seen: list[Seen]) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        pictures: dict[str, str] = {}
        names = ("sample", "label", "prediction", "probability", "target", "truth")
        for shard, look in zip(shards, seen, strict=True):
            facts = zip(
                shard.ids, look.labels, look.predictions, look.probabilities, shard.targets, look.truths, strict=True
            )
            rows += [dict(zip(names, one, strict=True)) for one in facts]
            pictures |= {one: self.store.put_picture(png) for one, png in zip(shard.ids, look.pictures, strict=False)}
        return {"rows": rows, "pictures": pictures}

    def _learn(self) -> dict[str, dict[str, Any]]:
        """Gives the classifier every lesson that the methods need, and says of each what its content is."""
        return learning.install(
            learning.needed(self.methods),
            self.classifier,
            self.samples,
            self.store,
            seed=self.seed,
            batch=self.options.shard,
            threads=self._threads(),
            observer=self.observer,
        )

    def _check_met(self, *, labels: bool) -> None:
        given = {"recipe": self.recipe is not None, "checkpoints": bool(self.checkpoints)}
        planning.check_met(self.metrics, self.classifier, labels=labels, **given)

    def _relatives(self, shipped: Shipped, labels: tuple[int, ...], lessons: Mapping[str, str], afterwards: str) -> Siblings:
        """Every relative that the metrics ask for: from the store, or trained now, which the store then keeps."""
        siblings = Siblings(self.classifier, self.samples, self.store, self.seed, self.options.shard)
        siblings.add_checkpoints(self.checkpoints)
        relatives = kin.wanted(self.metrics, self.methods)
        if self.recipe is None or self.training is None or not relatives:
            return siblings
        keys = kin.keys_of(relatives, self.recipe, self.training, self.classifier, seed=self.seed, lessons=lessons)
        missing = {name: one for name, one in relatives.items() if not siblings.add_known(name, keys[name])}
        if not missing:
            return siblings
        if len(missing) < len(relatives):
            self.observer.note(f"{len(relatives) - len(missing)} of {len(relatives)} relatives are already trained")
        self.observer.note(f"the recipe trains {len(missing)} relatives of '{self.classifier.name}' first; {afterwards}")
        groups = {str(place): group for place, group in enumerate(kin.groups(missing))}
        images = Passes(forward=len(self.training))
        self.observer.begin("training relatives", len(missing) * images, len(missing))
        facts = (self.recipe, self.training, labels, shipped, self.seed, self._threads())
        calls = ((place, Train(group, *facts)) for place, group in groups.items())
        for place, answer in self._everywhere(calls, lambda place: f"training {groups[place][0].name}"):
            if isinstance(answer, Exception):
                raise answer
            for one, trained in zip(groups[place], answer, strict=True):
                siblings.add_trained(one, keys[one.name], trained)
                self.observer.finished(images)
        self.observer.end()
        return siblings

    def _worth_compiling(self, pace: planning.Pace, total: Passes) -> bool:
        if self.options.compile is not None or "layer" not in self.classifier.offers:
            return bool(self.options.compile)
        return repays(pace.forward * (total.forward - total.backward) / max(1, self.options.workers))

    def _expected(self, pace: planning.Pace, total: Passes) -> str:
        return (
            f"then come {total.forward:,} forward and {total.backward:,} backward passes, less what sharing saves: "
            f"at most about {duration(pace.seconds(total) / max(1, self.options.workers))} in the model"
        )

    def _announce(
        self,
        tasks: list[Task],
        plan: planning.Plan,
        inputs: Tensor,
        compiled: bool,
        pace: planning.Pace,
        units: int,
    ) -> dict[str, Any]:
        """Says what is planned and how long it should take; compiles first when that was decided, to be timed too."""
        if len(tasks) < units:
            self.observer.note(f"{units - len(tasks)} of {units} units are already finished and will not be repeated")
        if not tasks:
            return {"seconds": 0.0, "compile_seconds": 0.0}
        started = time.perf_counter()
        todo = sum((task.passes(plan) for task in tasks), Passes())
        if compiled and not self._elsewhere():
            self.observer.note("compiling the forward pass, which this many passes repay")
            reason = self.classifier.compile_for(inputs)
            if reason:
                self.observer.note(f"compiling failed ({reason}); going on without it")
        compile_seconds = time.perf_counter() - started
        if self.classifier.use_compiled:
            pace = replace(pace, forward=planning.measure_pace(self.classifier, inputs, gradients=False).forward)
        spared = saved(tasks, plan)
        seconds = pace.seconds(todo - spared) / max(1, self.options.workers)
        self.observer.note(
            f"planned: {todo.forward:,} forward and {todo.backward:,} backward passes through '{self.classifier.name}', "
            f"of which sharing saves {spared.forward:,} and {spared.backward:,}; about {duration(seconds)} in the model"
        )
        return {"seconds": seconds, "compile_seconds": compile_seconds}

    # Computing -------------------------------------------------------------------------------------------------------

    def _compute(
        self, shipped: Shipped, siblings: Siblings, tasks: list[Task], plan: planning.Plan, compiled: bool
    ) -> list[dict[str, str]]:
        by_key = {task.key: task for task in tasks}
        errors = []
        self.observer.begin("explaining", sum((task.passes(plan) for task in tasks), Passes()), len(tasks))
        calls = ((key, self._unit(shipped, siblings, task, compiled)) for key, task in by_key.items())
        for key, answer in self._everywhere(calls, lambda key: label(by_key[key].method)):
            task = by_key[key]
            if isinstance(answer, SnellenError):
                raise answer
            if isinstance(answer, Exception):
                problem = f"{type(answer).__name__}: {answer}".strip()
                errors.append({"method": label(task.method), "sample": task.shard.ids[0], "problem": problem})
            else:
                self._keep(task, siblings, answer)
                errors += [
                    {"method": label(task.method), "metric": metric, "sample": task.shard.ids[0], "problem": problem}
                    for metric, problem in answer.failed.items()
                ]
            self.observer.finished(task.passes(plan) if self._elsewhere() else Passes())
        self.observer.end()
        return errors

    def _unit(self, shipped: Shipped, siblings: Siblings, task: Task, compiled: bool) -> Unit:
        return Unit(
            classifier=shipped,
            method=task.method,
            metrics=task.metrics,
            samples=self.samples.take(list(task.shard.places)),
            digests=task.shard.digests,
            targets=task.shard.targets,
            seed=self.seed,
            compiled=compiled,
            threads=self._threads(),
            maps=self.store.maps(task.maps) if task.maps else None,
            siblings=siblings.shipped(task.method, task.metrics),
        )

    def _keep(self, task: Task, siblings: Siblings, result: Result) -> None:
        """Writes what a unit found; its record comes last."""
        rows = []
        for scores in result.scores:
            curves = scores.curve.tolist() if scores.curve is not None else [None] * len(scores.ids)
            for one, value, curve in zip(scores.ids, scores.values.tolist(), curves, strict=True):
                rows.append(
                    {"sample": one, "method": scores.method, "metric": scores.metric, "value": value, "curve": curve}
                )
        keys = {label(one): metric_key(one, siblings.digests(task.method, one)) for one in task.metrics}
        record = {
            "map_key": task.map_key,
            "method": label(task.method),
            "samples": list(task.shard.ids),
            "maps": task.maps or self.store.put_maps(result.maps),
            "scores": self.store.put_scores(rows),
            "metrics": {name: key for name, key in keys.items() if name in result.metric_costs},
            "refused": {name: {"key": keys[name], "problem": problem} for name, problem in result.refused.items()},
            "metric_costs": result.metric_costs,
        }
        if task.maps is None:
            record["cost"] = result.cost
        self.store.finish(task.key, record)

    def _close(self, record: dict[str, Any], old: dict[str, Any] | None, seconds: float) -> None:
        """Adds up, writes the merged table when all is there, and reports what failed."""
        known = self.store.units()
        used = [known[one["unit"]] for one in record["units"] if one["unit"] in known]
        costs = [cost for unit in used for cost in [unit.get("cost"), *unit["metric_costs"].values()] if cost]
        names = ("forward", "backward", "shared_forward", "shared_backward", "model_seconds", "seconds")
        record["totals"] = {name: sum(cost[name] for cost in costs) for name in names}
        before = (old or {}).get("totals", {}).get("wall_seconds", 0.0)
        record["totals"]["wall_seconds"] = before + seconds
        if not record["errors"]:
            self.store.merge([(known[one["unit"]]["scores"], one["metrics"]) for one in record["units"]])
            record["finished"] = _now()
        self.store.put_record(record)
        wanted = {label(one) for one in self.metrics}
        for note in dict.fromkeys(
            f"{name} cannot be scored on {unit['method']}: {one['problem']}"
            for unit in used
            for name, one in unit.get("refused", {}).items()
            if name in wanted
        ):
            self.observer.note(note)
        if record["errors"]:
            raise UnfinishedError(_failure(record["errors"], len(record["units"]), self.store.folder))

    # Where ------------------------------------------------------------------------------------------------------------

    def _everywhere(
        self, calls: Iterator[tuple[str, Call[R]]], name: Callable[[str], str]
    ) -> Iterator[tuple[str, R | Exception]]:
        return run_all(
            calls,
            workers=self.options.workers,
            executor=self.executor,
            on_pass=self.observer.passed,
            on_start=lambda key: self.observer.running(name(key)),
        )

    def _elsewhere(self) -> bool:
        return self.executor is not None or self.options.workers > 1

    def _threads(self) -> int | None:
        return self.options.threads or (1 if self._elsewhere() else None)


def _refuse_another(old: dict[str, Any], new: dict[str, Any], folder: Path) -> None:
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


class UnfinishedError(SnellenError):
    """Some units failed; the run folder holds everything else and why they did."""


def _failure(errors: list[dict[str, str]], units: int, folder: Path) -> str:
    first = errors[0]
    whole = [one for one in errors if "metric" not in one]
    what = f"{len(whole)} of {units} units failed" if whole else f"{len(errors)} scores of shards failed"
    which = first["method"] + (f", scored by {first['metric']}," if "metric" in first else "")
    return (
        f"{what}, the first being {which} from '{first['sample']}' on ({first['problem']}); everything else is kept in "
        f"'{folder}', and running the same command tries the failed ones again"
    )


def _counts(passes: Passes) -> dict[str, int]:
    return {"forward": passes.forward, "backward": passes.backward}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
