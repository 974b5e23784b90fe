"""evaluate() -> Run: the only loop. It checks all samples, refuses what cannot work, plans, computes what is missing."""

from __future__ import annotations

import functools
import operator
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.engines import compiling_pays
from snellen.classifier.repeatability import repeatability_warnings
from snellen.errors import SnellenError
from snellen.files.documents import MOST_WHOLE, check_shape
from snellen.images import Samples, apply_condition
from snellen.images.cases import make_cases
from snellen.maps.explaining_again import refusals
from snellen.maps.made_elsewhere import Key, MapsMadeElsewhere
from snellen.plugins.named_code import line_of_user
from snellen.plugins.registry import CONDITIONS, label, traits
from snellen.runs import chosen_targets, fitting, recording, requirements, variant_training
from snellen.runs import plan as planning
from snellen.runs.accuracy import Accuracy, accuracy
from snellen.runs.executors import Call, run_all
from snellen.runs.number_error import NumberError, number_error
from snellen.runs.progress import Observer, default_observer, duration
from snellen.runs.record import Failure, FittedRecord, Planned, SamplesRecord, Spec
from snellen.runs.run import Run
from snellen.runs.store import Store
from snellen.runs.subject import samples_for
from snellen.runs.tasks import MissingUnit, Shard, cached_passes, common_key, missing_units, split_into_shards
from snellen.runs.torch_modes import usual_modes
from snellen.runs.unit import InspectShard, PackedClassifier, ShardFacts, Unit
from snellen.runs.variant_training import RunVariants, TrainVariants
from snellen.types import Condition, Findings, MadeOfTruth, Method, Metric, Passes, Recipe

R = TypeVar("R")

Seed = Annotated[int, Field(ge=0, le=MOST_WHOLE)]
ShardSize = Annotated[int, Field(ge=1, le=1_000_000)]
Workers = Annotated[int, Field(ge=0, le=256)]
Threads = Annotated[int, Field(ge=1, le=256)]
"""A number beyond what a machine has would end the process."""

PICTURES = 12
"""How many images a run stores for its report."""


@dataclass(frozen=True)
class Options:
    """How to compute. Only `shard` and `compile` can change a score, and only within float tolerance."""

    shard: int = 16
    """Images per unit of work."""
    workers: int = 0
    """Processes; 0 computes in this one."""
    threads: int | None = None
    """Torch threads of each process."""
    compile: bool | None = None
    """Whether to compile the forward pass; decided from the plan where None."""
    request: dict[str, Any] | None = None
    """The settings of the command line, stored in the run so that `snellen resume` can continue it."""
    pass_seconds: planning.PassSeconds | None = None
    """How long passes take, where that was measured already."""

    def check(self) -> None:
        """Refuses numbers that no machine can use."""
        bounds: dict[str, Any] = {"shard": ShardSize, "workers": Workers, "threads": Threads | None}
        for name, kind in bounds.items():
            check_shape(kind, getattr(self, name), f"options: {name}")


@usual_modes()
def evaluate(
    classifier: Any,
    samples: Any,
    *,
    methods: Any = (),
    metrics: Any,
    maps: Any = None,
    map_range: Any = None,
    target: Any = "predicted",
    condition: Any = None,
    seed: int = 0,
    out: str | Path | None = None,
    options: Options | None = None,
    executor: Executor | None = None,
    observer: Observer | None = None,
    recipe: Any = None,
    training: Any = None,
    checkpoints: Any = None,
    trust: bool = False,
) -> Run:
    """Explains every sample by every method, scores the maps by every metric, and stores all of it in a run folder.

    Calling it again with the same folder continues: finished units are never repeated, new methods and metrics are added.

    Args:
        classifier: A `Classifier`, or a module or function that becomes one.
        samples: `Samples`, a folder, files, arrays, a Dataset, or a list of `Sample`.
        methods: A list of names, texts with settings or plug-ins, or one text of comma-separated names.
        metrics: The same; None computes the maps alone.
        maps: Maps made elsewhere, by a name for each set: a folder, an .npz or .safetensors file, a dictionary of arrays by
            sample id, or an array with a map per sample. They are scored like a method's, and never computed.
        map_range: The two numbers that black and white mean, where these maps are PNG files.
        target: What maps explain: predicted, label, every-label, least-likely, a class name or its number, contrast(a, b),
            up or down for a number, or a function from logits to one number per row.
        condition: Changes all images first, such as `rotation(degrees=45)`.
        seed: Changes every random draw.
        out: The run folder; without one, a temporary folder that lives as long as the Run.
        options: How to compute.
        executor: Any `concurrent.futures.Executor`, instead of `options.workers`.
        observer: Shows progress.
        recipe: Trains variants for metrics that compare with other models; see `types.Recipe`.
        training: Labelled images for the recipe.
        checkpoints: A folder of state dicts that were saved while the classifier was trained.
        trust: Whether to open pickled models in `out` that were not made here, which executes what they hold.
    """
    if (recipe is None) != (training is None):
        raise SnellenError("a recipe and training images belong together: give --recipe and --training, or neither")
    if out is not None and not str(out).strip():
        raise SnellenError("out is empty; name the run folder, or leave it out")
    check_shape(Seed, seed, "seed")
    (options or Options()).check()
    progress = observer or default_observer()
    with _run_folder(out) as folder:
        wrapped = classifier if isinstance(classifier, Classifier) else Classifier(classifier)
        parsed_condition = None if condition is None else CONDITIONS.parse(condition)
        plain = samples_for(wrapped, samples)
        job = _Job(
            store=Store(folder, progress.note),
            classifier=wrapped,
            samples=plain if parsed_condition is None else apply_condition(plain, parsed_condition, seed=seed),
            methods=planning.parse_methods(methods, maps, map_range),
            metrics=[] if metrics is None else planning.parse_metrics(metrics),
            target=chosen_targets.plain_target(target),
            condition=parsed_condition,
            seed=seed,
            options=options or Options(),
            executor=executor,
            observer=progress,
            recipe=None if recipe is None else variant_training.find_recipe(recipe),
            training=None if training is None else variant_training.find_training(training, wrapped),
            checkpoints={} if checkpoints is None else variant_training.find_checkpoints(checkpoints, wrapped),
            trust=trust,
        )
        fitted_before = dict(wrapped.fitted_state)
        with job.store.writing():
            try:
                job.run()
            finally:
                job.observer.end()
                wrapped.fitted_state = fitted_before  # states that were fitted to these samples do not fit others
        return Run(folder, temporary=out is None)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One call of `evaluate`, with everything parsed."""

    store: Store
    classifier: Classifier
    samples: Samples
    methods: list[Method]
    metrics: list[Metric]
    target: Any
    condition: Condition | None
    seed: int
    options: Options
    executor: Executor | None
    observer: Observer
    recipe: Recipe | None
    training: Samples | None
    checkpoints: Mapping[str, nn.Module]
    trust: bool
    pictures: Mapping[str, str] | None = None
    """By id of a sample, the picture that it is a case of; None where samples are pictures."""

    def run(self) -> None:
        """Computes what is missing; where targets are not columns of the model, or several per image, these come first."""
        if any(isinstance(method, MapsMadeElsewhere) and method.digest is None for method in self.methods):
            self._with_checked_maps().run()
            return
        head = self.classifier.head
        plain = head.exclusive and (isinstance(self.target, int) or self.target in chosen_targets.CHOICES[:2])
        if plain or self.classifier.target_name is not None or self.samples.pictures is not None:
            self._compute_missing()  # with targets of the model, or with targets that were decided before
            return
        if self.target == "every-label" and head.exclusive:
            raise SnellenError(
                f"target 'every-label' is for independent labels, but '{self.classifier.name}' has {head.words}; say 'label'"
            )
        classes = self.classifier.check(self.classifier.to_inputs(self.samples[0].image[None]))
        target = chosen_targets.further_target(self.target, self.classifier, classes)
        if target is not None:
            name = chosen_targets.target_name(target, self.classifier, classes)
            replace(self, classifier=self.classifier.with_target(target, name), target=target.text)._compute_missing()
        elif head.exclusive or not head.decides:
            self._compute_missing()
        else:
            self._with_cases(classes)._compute_missing()

    def _with_cases(self, classes: int) -> _Job:
        """The same job with a sample per image and target."""
        shards = split_into_shards(self.samples, self.options.shard)
        facts = self._inspect(PackedClassifier(self.classifier), shards)
        targets = chosen_targets.targets_of_images(self.target, self.classifier, classes, self.samples.ids, facts)
        names = chosen_targets.class_names(self.classifier, classes)
        without = [name for name, row in zip(self.samples.ids, targets, strict=True) if not row]
        if len(without) == len(targets):
            raise SnellenError(f"target '{self.target}' gives no image a target; there is nothing to explain")
        cases = make_cases(self.samples, targets, names)
        notes = [*cases.notes, chosen_targets.label_agreement(self.classifier, facts)]
        truths = [truth for shard_facts in facts for truth in shard_facts.truths]
        if any(truth != "none" and len(row) > 1 for truth, row in zip(truths, targets, strict=True)):
            notes.append(
                "each image has one mask, which is the truth of all its targets; in Python, Sample.truths has one per label"
            )
        if without:
            notes.append(f"{len(without)} of {len(targets)} images have no target by '{self.target}', first '{without[0]}'")
        pictures = [name for name, row in zip(self.samples.ids, targets, strict=True) for _ in row]
        return replace(
            self,
            samples=replace(cases, notes=tuple(note for note in notes if note)),
            pictures=dict(zip(cases.ids, pictures, strict=True)),
        )

    def _with_checked_maps(self) -> _Job:
        """The same job, after all maps made elsewhere were read and compared with the images."""
        if self.condition is not None:
            raise SnellenError(
                f"maps made elsewhere are of the images as they are, but the condition '{label(self.condition)}' changes "
                "them; leave out --condition, or make maps of images that are changed already"
            )
        inputs = self.classifier.to_inputs(self.samples[0].image[None])
        classes = self.classifier.check(inputs)
        head = self.classifier.head
        methods = [
            method.checked(
                self.samples,
                size=(int(inputs.shape[2]), int(inputs.shape[3])),
                channels=int(inputs.shape[1]),
                classes=chosen_targets.class_names(self.classifier, classes),
                complete=head.exclusive or not head.decides,
            )
            if isinstance(method, MapsMadeElsewhere)
            else method
            for method in self.methods
        ]
        return replace(self, methods=methods)

    def _compute_missing(self) -> None:
        started = time.perf_counter()
        old = self.store.intact_record()
        shards = split_into_shards(self.samples, self.options.shard)
        spec = self._spec()
        skipped = (f"skipped '{name}': {reason}" for name, reason in self.samples.skipped)
        notes = [*self.classifier.notes, *self.samples.notes, *skipped]
        if self.metrics and (words := chosen_targets.probability_note(self.classifier)) is not None:
            notes.append(words)
        for note in notes:
            self.observer.note(note)
        if old is not None:
            digest = recording.samples_digest(shards)
            recording.check_same_run(old, spec, self.classifier.fingerprint, digest, self.store.folder)
            for note in recording.changed_plugins(old, self.methods, self.metrics):
                self.observer.note(note)

        self.classifier.use_compiled = False
        inputs = self.classifier.to_inputs(self.samples[0].image[None])
        classes = self.classifier.check(inputs)
        rows = self.classifier.rows_for(inputs)
        for note in repeatability_warnings(self.classifier, self.samples[0].image):
            notes.append(note)
            self.observer.note(note)
        requirements.check_needs(self.classifier, self.methods, inputs)
        self._check_requirements(labels=True)
        labels = () if self.training is None else variant_training.training_labels(self.training, self.classifier, classes)
        packed = PackedClassifier(self.classifier)
        facts = self._inspect(packed, shards)
        if doubt := self.classifier.check_output_range(
            functools.reduce(operator.or_, (shard_facts.outputs for shard_facts in facts)), inputs
        ):
            notes.append(doubt)
            self.observer.note(doubt)
        self._check_requirements(labels=any(index is not None for shard_facts in facts for index in shard_facts.labels))
        shards = [self._with_targets(shard, shard_facts, classes) for shard, shard_facts in zip(shards, facts, strict=True)]
        refused = refusals(self.methods, self.metrics)
        for sentence in recording.joined_refusals(refused):
            self.observer.note(sentence)
        chosen_maps = self._choose_maps(shards, classes, notes)
        samples = recording.describe_samples(self.store, self.samples, shards, facts)
        self._note_agreement(samples, classes)
        fitted = self._fit()
        if fitted:
            packed = PackedClassifier(self.classifier)
        plan = planning.plan_passes(self.classifier, self.methods, self.metrics, facts[0].size)
        total = sum(plan.passes.values(), Passes()) * len(self.samples)
        measured = self.options.pass_seconds
        pass_seconds = measured or planning.measure_pass_seconds(self.classifier, inputs, gradients=total.backward > 0)
        fitted_digests = {name: state.digest for name, state in fitted.items()}
        variants = self._train_variants(packed, labels, fitted_digests, self._forecast(pass_seconds, total))

        compiled = old.spec.compiled if old is not None else self._worth_compiling(pass_seconds, total)
        tasks, units = missing_units(
            self.store,
            shards,
            self.methods,
            self.metrics,
            common_key(self.classifier, self.seed, compiled),
            fitted_digests,
            variants.digests,
            lambda method, shard: method.read(
                [chosen_maps[label(method)][sample_id] for sample_id in shard.ids], facts[0].size, int(inputs.shape[1])
            ),
        )
        seconds, compile_seconds = self._announce(tasks, plan, inputs, compiled, pass_seconds, len(units))
        metrics = tuple(planning.describe_metric(metric, facts[0].size, self.classifier) for metric in self.metrics)
        record = recording.open_record(
            old,
            request=self.options.request,
            spec=spec.changed(metrics=metrics, compiled=compiled),
            classifier=recording.describe_classifier(self.classifier, classes=classes, rows=rows),
            samples=samples,
            notes=notes,
            fitted=fitted,
            variants=variants.facts,
            units=units,
            planned=Planned(
                seconds=seconds, compile_seconds=compile_seconds, forward=total.forward, backward=total.backward
            ),
        )
        self.store.put_record(record)

        errors = self._compute(packed, variants, tasks, plan, compiled)
        finished = self.store.intact_units()
        record = recording.close_record(self.store, record, old, finished, time.perf_counter() - started, errors)
        for note in recording.refusal_sentences(record, finished, except_for=refused):
            self.observer.note(note)
        if errors:
            raise UnfinishedError(recording.failure_sentence(record, self.store.folder))

    # Before computing ------------------------------------------------------------------------------------------------

    def _spec(self) -> Spec:
        """What is to be computed; the metrics are described later, when the size of the images is known."""
        positive = [method for method in self.methods if isinstance(method, MadeOfTruth)]
        if len(positive) == len(self.methods):
            names, verb = " and ".join(map(label, positive)), "is" if len(positive) == 1 else "are"
            raise SnellenError(
                f"{names} {verb} there to compare others with; name a method too, or a control such as random"
            )
        described = Spec(
            methods=tuple(
                planning.describe_method(method) for method in self.methods if not isinstance(method, MadeOfTruth)
            ),
            metrics=(),
            target=self.target,
            condition=None if self.condition is None else label(self.condition),
            seed=self.seed,
            shard=self.options.shard,
            precision=self.classifier.precision,
        )
        # Not set without any, so that the records of such runs are as before.
        return described.changed(positive_controls=tuple(map(planning.describe_method, positive))) if positive else described

    def _inspect(self, packed: PackedClassifier, shards: list[Shard]) -> list[ShardFacts]:
        """Loads every image once, so that broken images and wrong labels are refused before any method runs."""
        self.observer.begin("looking at the images", Passes(forward=len(self.samples)), len(shards))
        calls = (
            (
                str(number),
                InspectShard(
                    classifier=packed,
                    samples=self.samples.take(list(shard.indices)),
                    digests=shard.digests,
                    pictures=max(0, PICTURES - shard.indices.start),
                    threads=self._threads(),
                ),
            )
            for number, shard in enumerate(shards)
        )
        facts: dict[int, ShardFacts] = {}
        for key, result in self._run_calls(calls, lambda _: "looking at the images"):
            if isinstance(result, Exception):
                raise _as_sentence(result, "looking at the images failed")
            facts[int(key)] = result
            self.observer.finished(Passes(forward=len(result.labels)) if self._in_other_processes() else Passes())
        self.observer.end()
        return [facts[number] for number in range(len(shards))]

    def _with_targets(self, shard: Shard, shard_facts: ShardFacts, classes: int) -> Shard:
        """The shard with the class that each of its maps is to explain."""
        for sample_id, index in zip(shard.ids, shard_facts.labels, strict=True):
            if isinstance(index, Findings) and self.classifier.head.decides and not self.classifier.head.exclusive:
                chosen_targets.check_findings(index, sample_id, self.classifier, classes)
                continue
            if isinstance(index, Findings):
                raise SnellenError(
                    f"'{sample_id}' has several labels, but '{self.classifier.name}' has {self.classifier.head.words}; say "
                    "heads='independent-labels' where several may be right, or give one label"
                )
            if index is not None and not self.classifier.head.decides:
                raise SnellenError(
                    f"'{sample_id}' has a class as its label, but '{self.classifier.name}' gives a number; say "
                    f"Sample(number={index}), or from_arrays(..., numbers=True)"
                )
            if index is not None and not 0 <= index < classes:
                raise SnellenError(
                    f"'{sample_id}' has label {index}, but '{self.classifier.name}' has classes 0 to {classes - 1}"
                )
        chosen_targets.check_numbers(self.classifier, shard.ids, shard_facts.numbers)
        requirements.check_truth([*self.methods, *self.metrics], shard.ids, shard_facts.truths)
        return replace(
            shard, targets=chosen_targets.resolve_targets(self.target, self.classifier, classes, shard.ids, shard_facts)
        )

    def _choose_maps(self, shards: list[Shard], classes: int, notes: list[str]) -> dict[str, dict[str, Key]]:
        """By label and sample, the maps that were made elsewhere; refuses samples without one."""
        ids = [sample_id for shard in shards for sample_id in shard.ids]
        pictures = [(self.pictures or {}).get(sample_id, sample_id) for sample_id in ids]
        targets = [target for shard in shards for target in shard.targets]
        chosen: dict[str, dict[str, Key]] = {}
        for method in self.methods:
            if isinstance(method, MapsMadeElsewhere):
                names = chosen_targets.class_names(self.classifier, classes)
                keys = method.choose(list(zip(pictures, targets, strict=True)), names)
                chosen[label(method)] = dict(zip(ids, keys, strict=True))
                if unused := method.count - len(set(keys)):
                    notes.append(
                        f"{unused} of {method.count} maps of '{label(method)}' are not used: the run has no case of their "
                        "picture and target"
                    )
                    self.observer.note(notes[-1])
        return chosen

    def _note_agreement(self, samples: SamplesRecord, classes: int) -> None:
        """Notes how well the outputs agree with the labels, before hours are spent on a model that was set up wrongly."""
        head, rows = self.classifier.head, samples.rows
        condition = None if self.condition is None else label(self.condition)
        measured: Accuracy | NumberError | None = None
        if head.exclusive:
            labels, predictions = [row.label for row in rows], [row.prediction for row in rows]
            measured = accuracy(labels, predictions, classes, self.classifier.classes, condition)
        elif not head.decides:
            unit = chosen_targets.unit_of(head)
            measured = number_error([row.number for row in rows], [row.estimate for row in rows], unit, condition)
        if measured is not None:
            self.observer.note(f"{measured.name.lower()} {measured.words}. {measured.remark}".strip())

    def _fit(self) -> dict[str, FittedRecord]:
        """Fits the methods that need it, or reads their fitted states from the run folder."""
        return fitting.install_fitted_states(
            fitting.states_to_fit(self.methods),
            self.classifier,
            self.samples,
            self.store,
            seed=self.seed,
            batch=self.options.shard,
            threads=self._threads(),
            observer=self.observer,
        )

    def _check_requirements(self, *, labels: bool) -> None:
        available = {"recipe": self.recipe is not None, "checkpoints": bool(self.checkpoints)}
        requirements.check_requirements(self.metrics, self.classifier, labels=labels, **available)

    def _train_variants(
        self, packed: PackedClassifier, labels: tuple[int, ...], fitted_digests: Mapping[str, str], forecast: str
    ) -> RunVariants:
        """The variants that the metrics need: from the run folder, or trained now and stored there."""
        variants = RunVariants(
            classifier=self.classifier,
            samples=self.samples,
            store=self.store,
            seed=self.seed,
            batch=self.options.shard,
            trust=self.trust,
        )
        variants.add_checkpoints(self.checkpoints)
        needed = variant_training.variants_to_train(self.metrics, self.methods)
        if self.recipe is None or self.training is None or not needed:
            return variants
        keys = variant_training.variant_keys(
            needed, self.recipe, self.training, self.classifier, seed=self.seed, fitted_digests=fitted_digests
        )
        untrained = {name: variant for name, variant in needed.items() if not variants.add_stored(name, keys[name])}
        if not untrained:
            return variants
        if len(untrained) < len(needed):
            self.observer.note(f"{len(needed) - len(untrained)} of {len(needed)} variants are already trained")
        self.observer.note(f"the recipe trains {len(untrained)} variants of '{self.classifier.name}' first; {forecast}")
        groups = {str(number): group for number, group in enumerate(variant_training.group_by_maps(untrained))}
        images = Passes(forward=len(self.training))
        self.observer.begin("training variants", len(untrained) * images, len(untrained))
        calls = (
            (
                key,
                TrainVariants(
                    variants=group,
                    recipe=self.recipe,
                    samples=self.training,
                    labels=labels,
                    classifier=packed,
                    seed=self.seed,
                    threads=self._threads(),
                ),
            )
            for key, group in groups.items()
        )
        for key, result in self._run_calls(calls, lambda key: f"training {groups[key][0].name}"):
            if isinstance(result, Exception):
                raise _as_sentence(result, f"training {groups[key][0].name} failed")
            for variant, trained in zip(groups[key], result, strict=True):
                variants.add_trained(variant, keys[variant.name], trained)
                self.observer.finished(images)
        self.observer.end()
        return variants

    def _worth_compiling(self, pass_seconds: planning.PassSeconds, total: Passes) -> bool:
        if self.options.compile is not None or "layer" not in self.classifier.offers:
            return bool(self.options.compile)
        return compiling_pays(pass_seconds.forward * (total.forward - total.backward) / max(1, self.options.workers))

    def _forecast(self, pass_seconds: planning.PassSeconds, total: Passes) -> str:
        return (
            f"then come {total.forward:,} forward and {total.backward:,} backward passes, less what the cache saves: "
            f"at most about {duration(pass_seconds.seconds(total) / max(1, self.options.workers))} in the model"
        )

    def _announce(
        self,
        tasks: list[MissingUnit],
        plan: planning.Plan,
        inputs: Tensor,
        compiled: bool,
        pass_seconds: planning.PassSeconds,
        units: int,
    ) -> tuple[float, float]:
        """Notes what is planned and how long it should take; compiles first where that was decided, which takes time too.

        Returns the expected seconds in the model, and those that compiling took.
        """
        if len(tasks) < units:
            self.observer.note(f"{units - len(tasks)} of {units} units are already finished and will not be repeated")
        if not tasks:
            return 0.0, 0.0
        started = time.perf_counter()
        todo = sum((task.passes(plan) for task in tasks), Passes())
        if compiled and not self._in_other_processes():
            self.observer.note("compiling the forward pass, which this many passes repay")
            reason = self.classifier.compile_for(inputs)
            if reason:
                self.observer.note(f"compiling failed ({reason}); going on without it")
        compile_seconds = time.perf_counter() - started
        if self.classifier.use_compiled:
            pass_seconds = replace(
                pass_seconds, forward=planning.measure_pass_seconds(self.classifier, inputs, gradients=False).forward
            )
        spared = cached_passes(tasks, plan)
        seconds = pass_seconds.seconds(todo - spared) / max(1, self.options.workers)
        most = "at most " if any(traits(task.method).at_most for task in tasks) else ""
        self.observer.note(
            f"planned: {most}{todo.forward:,} forward and {todo.backward:,} backward passes through "
            f"'{self.classifier.name}', of which the cache saves {spared.forward:,} and {spared.backward:,}; "
            f"{most or 'about '}{duration(seconds)} in the model"
        )
        return seconds, compile_seconds

    # Computing -------------------------------------------------------------------------------------------------------

    def _compute(
        self, packed: PackedClassifier, variants: RunVariants, tasks: list[MissingUnit], plan: planning.Plan, compiled: bool
    ) -> list[Failure]:
        by_key = {task.key: task for task in tasks}
        errors = []
        self.observer.begin("explaining", sum((task.passes(plan) for task in tasks), Passes()), len(tasks))
        calls = ((key, self._unit(packed, variants, task, compiled)) for key, task in by_key.items())
        for key, result in self._run_calls(calls, lambda key: label(by_key[key].method)):
            task = by_key[key]
            if isinstance(result, SnellenError):
                raise result
            if isinstance(result, Exception):
                problem = f"{type(result).__name__}: {result}".strip() + line_of_user(result)
                errors.append(Failure(method=label(task.method), sample=task.shard.ids[0], problem=problem))
            else:
                recording.write_unit(self.store, task, result, variants.digests)
                errors += [
                    Failure(method=label(task.method), metric=metric, sample=task.shard.ids[0], problem=problem)
                    for metric, problem in result.failed.items()
                ]
            self.observer.finished(task.passes(plan) if self._in_other_processes() else Passes())
        self.observer.end()
        return errors

    def _unit(self, packed: PackedClassifier, variants: RunVariants, task: MissingUnit, compiled: bool) -> Unit:
        return Unit(
            classifier=packed,
            method=task.method,
            metrics=task.metrics,
            samples=self.samples.take(list(task.shard.indices)),
            digests=task.shard.digests,
            targets=task.shard.targets,
            seed=self.seed,
            compiled=compiled,
            threads=self._threads(),
            maps=self.store.maps(task.maps) if task.maps else None,
            variants=variants.packed(task.method, task.metrics),
        )

    # In which process -----------------------------------------------------------------------------------------------------

    def _run_calls(
        self, calls: Iterator[tuple[str, Call[R]]], name: Callable[[str], str]
    ) -> Iterator[tuple[str, R | Exception]]:
        return run_all(
            calls,
            workers=self.options.workers,
            executor=self.executor,
            on_pass=self.observer.passed,
            on_start=lambda key: self.observer.running(name(key)),
        )

    def _in_other_processes(self) -> bool:
        return self.executor is not None or self.options.workers > 1

    def _threads(self) -> int | None:
        return self.options.threads or (1 if self._in_other_processes() else None)


def _as_sentence(problem: Exception, what: str) -> SnellenError:
    """The problem as an error that users see as one sentence, which starts with `what`."""
    if isinstance(problem, SnellenError):
        return problem
    refusal = SnellenError(f"{what} ({type(problem).__name__}: {problem})")
    refusal.__cause__ = problem
    return refusal


@contextmanager
def _run_folder(out: str | Path | None) -> Iterator[Path]:
    """The folder to write to; a temporary one is removed where an error leaves nothing computed in it."""
    if out is not None:
        yield Path(out)
        return
    folder = Path(tempfile.mkdtemp(prefix="snellen-"))
    try:
        yield folder
    except UnfinishedError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class UnfinishedError(SnellenError):
    """Some units failed; the run folder holds everything else, and the reasons."""
