"""Job: one call of `evaluate`. It checks all samples, refuses what cannot work, plans, computes what is missing."""

from __future__ import annotations

import functools
import itertools
import operator
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import cloudpickle
import numpy as np
from torch import nn

from snellen.classifier import Classifier
from snellen.classifier.repeatability import repeatability_warnings
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.images.cases import make_cases
from snellen.maps.explaining_again import refusals
from snellen.maps.made_elsewhere import Key, MapsMadeElsewhere
from snellen.plugins.named_code import line_of_user
from snellen.plugins.registry import label, traits
from snellen.runs import chosen_targets, engine_choice, fitting, recording, requirements, variant_training
from snellen.runs import plan as planning
from snellen.runs.accuracy import Accuracy, accuracy
from snellen.runs.dispatch import Tempo, Work
from snellen.runs.engine_choice import EngineChoice
from snellen.runs.executors import Crew, run_all
from snellen.runs.kept_maps import PICTURES, KeepMaps
from snellen.runs.number_error import NumberError, number_error
from snellen.runs.options import Options
from snellen.runs.planned_units import PlannedUnits
from snellen.runs.progress import Observer, duration
from snellen.runs.record import Failure, FittedRecord, Planned, RunRecord, SamplesRecord, Spec
from snellen.runs.run import default_decider
from snellen.runs.schedule import SEEDED, Budget, Costs, Schedule, check_judged, seeded_order
from snellen.runs.store import Store
from snellen.runs.tasks import (
    MissingUnit,
    Shard,
    cached_passes,
    common_key,
    missing_units,
    passes_of_shard,
    split_into_shards,
)
from snellen.runs.unit import InspectShard, PackedClassifier, ShardFacts, Unit
from snellen.runs.variant_training import RunVariants, TrainVariants
from snellen.runs.written_unit import Reach
from snellen.types import Condition, Findings, MadeOfTruth, Method, Metric, Passes, Recipe

R = TypeVar("R")

LOOK_SECONDS = 0.02
"""Expected seconds to load an image and classify it, before anything was measured."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One call of `evaluate`, with everything parsed."""

    store: Store
    """Where results go."""
    classifier: Classifier
    """What is explained."""
    samples: Samples
    """What it is explained on, under the condition."""
    methods: list[Method]
    """Also sets of maps made elsewhere."""
    metrics: list[Metric]
    """None computes the maps alone."""
    target: Any
    """What maps explain."""
    condition: Condition | None
    """What changed all images first."""
    seed: int
    """Changes every random draw."""
    options: Options
    """How to compute."""
    crew: Crew | None
    """Who computes; None for this process."""
    observer: Observer
    """Shows progress."""
    recipe: Recipe | None
    """Trains variants."""
    training: Samples | None
    """The recipe's images."""
    checkpoints: Mapping[str, nn.Module]
    """States of the model while it was trained, by name."""
    trust: bool
    """Whether pickled models that were not made here may be opened."""
    pictures: Mapping[str, str] | None = None
    """By id of a sample, the picture that it is a case of; None where samples are pictures."""
    seeded: bool = False
    """Whether the seed drew the order of the samples."""
    tempo: Tempo = field(default_factory=Tempo)
    """How long work takes here."""
    last_taken: dict[tuple[int, range], Samples] = field(default_factory=dict)
    """The samples of the last shard, which many units share."""

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

    def in_order(self) -> Job:
        """The same job with its samples in the order that the seed draws, where it stops early or did so before."""
        old = self.store.intact_record()
        seeded = old is not None and old.spec.order is not None
        if self.options.stops_early:
            if old is not None and not seeded:
                raise SnellenError(
                    f"'{self.store.folder}' was made in the order of its images, so --until and --budget cannot continue "
                    "it; leave them out, or choose another --out"
                )
            check_judged(self.methods, self.metrics)
        if not seeded and not self.options.stops_early:
            return self
        return replace(self, samples=self.samples.take(seeded_order(self.samples.ids, self.seed)), seeded=True)

    def _with_cases(self, classes: int) -> Job:
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

    def _with_checked_maps(self) -> Job:
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
        for note in () if self.crew is None else self.crew.check([*self.methods, *self.metrics]):
            self.observer.note(note)
        shards = split_into_shards(self.samples, self.options.shard)
        spec = self._spec().changed(**recording.keep_maps_fields(old, self.options.keep_maps))
        if spec.keep_maps == "none" and not self.metrics:
            raise SnellenError("--keep-maps none drops maps once they are scored, but there are no metrics; name some")
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

        self.classifier.use_eager()
        inputs = self.classifier.to_inputs(self.samples[0].image[None])
        classes = self.classifier.check(inputs)
        self.classifier.check_folded_norms(inputs)
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

        choice = self._choose_engine(old, shards, plan, pass_seconds)
        find_missing = functools.partial(
            missing_units,
            self.store,
            methods=self.methods,
            metrics=self.metrics,
            facts=common_key(self.classifier, self.seed, choice.name),
            fitted_digests=fitted_digests,
            variants=variants.digests,
            made_elsewhere=lambda method, shard: method.read(
                [chosen_maps[label(method)][sample_id] for sample_id in shard.ids], facts[0].size, int(inputs.shape[1])
            ),
        )
        tasks, units = find_missing(shards=shards)
        if old is not None and tasks and not self._in_other_processes():
            choice = engine_choice.prepare_kept(choice, self.classifier, inputs, self.store.folder)
        pass_seconds = replace(pass_seconds, alone=choice.picture_seconds)
        seconds = self._announce(tasks, plan, pass_seconds, len(units))
        self._note_recomputed(tasks, plan)
        metrics = tuple(planning.describe_metric(metric, facts[0].size, self.classifier) for metric in self.metrics)
        record = recording.open_record(
            old,
            request=self.options.request,
            spec=spec.changed(metrics=metrics, **_engine_fields(old, choice)),
            classifier=recording.describe_classifier(self.classifier, classes=classes, rows=rows),
            samples=samples,
            notes=notes,
            fitted=fitted,
            variants=variants.facts,
            plan=recording.describe_plan(self.store, PlannedUnits.of(()) if self.options.stops_early else units),
            planned=Planned(
                seconds=seconds, preparation_seconds=choice.seconds, forward=total.forward, backward=total.backward
            ),
            engine=choice.record,
        )
        record = record.with_units(PlannedUnits.of(()) if self.options.stops_early else units)
        self.store.put_record(record)

        compute = functools.partial(
            self._compute,
            packed,
            variants,
            plan=plan,
            pass_seconds=pass_seconds,
            engine=choice,
            shape=tuple(inputs.shape[1:]),
            keep_maps=spec.keep_maps,
        )
        if self.options.stops_early:
            costs = Costs(plan, pass_seconds, max(1, self.options.workers))
            record, errors = self._compute_in_steps(record, shards, costs, find_missing, compute)
        else:
            errors = compute(tasks)
        record = recording.close_record(self.store, record, old, time.perf_counter() - started, errors)
        for note in recording.refusal_sentences(record, self.store, except_for=refused):
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
        drawn: dict[str, Any] = {}
        if positive:
            drawn["positive_controls"] = tuple(map(planning.describe_method, positive))
        if self.classifier.folds_norms:
            drawn["fold_norms"] = True
        if self.seeded:
            drawn |= {"order": SEEDED, "until": self.options.until, "budget": self.options.budget}
        return described.changed(**drawn)

    def _inspect(self, packed: PackedClassifier, shards: list[Shard]) -> list[ShardFacts]:
        """Loads every image once, so that broken images and wrong labels are refused before any method runs."""
        self.observer.begin("looking at the images", Passes(forward=len(self.samples)), len(shards))
        works = (
            Work(
                str(number),
                InspectShard(
                    classifier=packed,
                    samples=self._samples_of(shard),
                    digests=shard.digests,
                    pictures=max(0, PICTURES - shard.indices.start),
                    threads=self._threads(),
                ),
                seconds={"looking": LOOK_SECONDS * len(shard.ids)},
            )
            for number, shard in enumerate(shards)
        )
        facts: dict[int, ShardFacts] = {}
        expected = LOOK_SECONDS * len(self.samples)
        for key, result in self._run_works(works, lambda _: "looking at the images", expected):
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
            labels, predictions = rows.values("label"), rows.values("prediction")
            measured = accuracy(labels, predictions, classes, self.classifier.classes, condition)
        elif not head.decides:
            unit = chosen_targets.unit_of(head)
            measured = number_error(rows.values("number"), rows.values("estimate"), unit, condition)
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
        works = (
            Work(
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
                seconds={key: 1.0},  # of a kind of its own, so that it travels alone
            )
            for key, group in groups.items()
        )
        for key, result in self._run_works(works, lambda key: f"training {groups[key][0].name}"):
            if isinstance(result, Exception):
                raise _as_sentence(result, f"training {groups[key][0].name} failed")
            for variant, trained in zip(groups[key], result, strict=True):
                variants.add_trained(variant, keys[variant.name], trained)
                self.observer.finished(images)
        self.observer.end()
        return variants

    def _choose_engine(
        self, old: RunRecord | None, shards: list[Shard], plan: planning.Plan, pass_seconds: planning.PassSeconds
    ) -> EngineChoice:
        """The engine of the run that is continued; of a new run the stated one, or the fastest that the plan repays."""
        stated = engine_choice.check_engine(self.options.engine)
        if old is not None:
            if stated not in (None, old.spec.engine_name):
                self.observer.note(f"the run goes on with the engine '{old.spec.engine_name}', with which it was started")
            return engine_choice.keep_engine(old, self.store.folder)
        if stated is not None:
            choice = engine_choice.state_engine(stated, self.classifier, self.samples)
        else:
            passes = passes_of_shard(shards[0], self.methods, self.metrics, plan)
            forward_only = (passes.forward - passes.backward) * len(self.samples) // len(shards[0].ids)
            budget = Budget() if self.options.budget is None else Budget.parse(self.options.budget)
            choice = engine_choice.choose_engine(
                self.classifier,
                self.samples,
                passes=int(min(forward_only, budget.passes, budget.seconds / pass_seconds.forward)),
                processes=max(1, self.options.workers),
                threads=self._threads(),
                pass_seconds=pass_seconds.forward,
            )
        if choice.note is not None:
            self.observer.note(choice.note)
        return choice

    def _forecast(self, pass_seconds: planning.PassSeconds, total: Passes) -> str:
        return (
            f"then come {total.forward:,} forward and {total.backward:,} backward passes, less what the cache saves: "
            f"at most about {duration(pass_seconds.seconds(total) / max(1, self.options.workers))} in the model"
        )

    def _announce(
        self,
        tasks: list[MissingUnit],
        plan: planning.Plan,
        pass_seconds: planning.PassSeconds,
        units: int,
    ) -> float:
        """Notes what is planned and how long it should take; returns the expected seconds in the model."""
        if len(tasks) < units:
            self.observer.note(f"{units - len(tasks)} of {units} units are already finished and will not be repeated")
        if not tasks:
            return 0.0
        todo = sum((task.passes(plan) for task in tasks), Passes())
        spared = cached_passes(tasks, plan)
        seconds = pass_seconds.seconds(todo - spared) / max(1, self.options.workers)
        most = "at most " if self.options.stops_early or any(traits(task.method).at_most for task in tasks) else ""
        self.observer.note(
            f"planned: {most}{todo.forward:,} forward and {todo.backward:,} backward passes through "
            f"'{self.classifier.name}', of which the cache saves {spared.forward:,} and {spared.backward:,}; "
            f"{most or 'about '}{duration(seconds)} in the model"
        )
        return seconds

    def _note_recomputed(self, tasks: list[MissingUnit], plan: planning.Plan) -> None:
        """Says what it costs that maps were not kept."""
        again = [task for task in tasks if task.recomputed]
        if not again:
            return
        passes = sum((plan.passes[label(task.method), "maps"] * len(task.shard.indices) for task in again), Passes())
        self.observer.note(
            f"maps of {len(again)} units were not kept by this run, so they are computed again for the new metrics, to the "
            f"same numbers: {passes.forward:,} forward and {passes.backward:,} backward passes of those planned; another "
            "run with --keep-maps all spares that"
        )

    # Computing -------------------------------------------------------------------------------------------------------

    def _compute_in_steps(
        self,
        record: RunRecord,
        shards: list[Shard],
        costs: Costs,
        find_missing: Callable[..., tuple[list[MissingUnit], PlannedUnits]],
        compute: Callable[..., list[Failure]],
    ) -> tuple[RunRecord, list[Failure]]:
        """Computes what decides verdicts, and adds it to the record step by step."""
        budget = None if self.options.budget is None else Budget.parse(self.options.budget)
        decider = (self.options.decider or default_decider)(record)
        chosen = Schedule(decider=decider, tests=[label(metric) for metric in self.metrics], costs=costs, budget=budget)
        errors: list[Failure] = []
        while (step := chosen.next_step()) is not None:
            part = [shard for shard in shards if step.start <= shard.indices.start < step.stop]
            tasks, planned = find_missing(shards=part, chosen_metrics=step.metrics)
            errors += compute(tasks, schedule=chosen, stage=step.words)
            finished = [(unit, by) for key, by in planned.pairs() if (unit := self.store.unit(key)) is not None]
            units = recording.merged_units([*record.units.pairs(), *((unit.key, by) for unit, by in finished)])
            record = record.changed(plan=recording.describe_plan(self.store, units)).with_units(units)
            self.store.put_record(record)
            columns = ["sample", "method", "metric", "value"]
            scores = self.store.scores(finished, record.samples.rows.names, columns)
            chosen.finish(step, [unit for unit, _ in finished], scores.to_pandas())
        self.observer.note(words := chosen.closing_words())
        return record.changed(notes=(*record.notes, words)), errors

    def _compute(
        self,
        packed: PackedClassifier,
        variants: RunVariants,
        tasks: list[MissingUnit],
        plan: planning.Plan,
        pass_seconds: planning.PassSeconds,
        engine: EngineChoice,
        shape: tuple[int, ...],
        keep_maps: KeepMaps,
        schedule: Schedule | None = None,
        stage: str = "explaining",
    ) -> list[Failure]:
        by_key = {task.key: task for task in tasks}
        facts = functools.partial(recording.unit_facts, variants=variants.digests, keep_maps=keep_maps, seed=self.seed)
        errors = []
        self.observer.begin(stage, sum((task.passes(plan) for task in tasks), Passes()), len(tasks))
        affordable = itertools.takewhile(lambda _: schedule is None or not schedule.is_spent, by_key.items())
        reach = Reach(self.store, self.crew, self.observer)
        # Little where a sample is a path; items of a data set are sent themselves.
        picture_bytes = len(cloudpickle.dumps(self._samples_of(tasks[0].shard))) if tasks and self.crew is not None else 0
        works = (
            Work(
                key,
                reach.call(self._unit(packed, variants, task, engine), facts(task)),
                seconds=task.seconds(plan, pass_seconds),
                group=task.shard.indices.start,
                bytes=picture_bytes + (0 if reach.is_reached else task.map_bytes(shape)),
            )
            for key, task in affordable
        )
        expected = sum((sum(task.seconds(plan, pass_seconds).values()) for task in tasks), 0.0)
        with reach.probing(bool(tasks)):
            for key, result in self._run_works(works, lambda key: label(by_key[key].method), expected):
                task = by_key[key]
                if isinstance(result, SnellenError):
                    raise result
                if isinstance(result, Exception):
                    problem = f"{type(result).__name__}: {result}".strip() + line_of_user(result)
                    errors.append(Failure(method=label(task.method), sample=task.shard.ids[0], problem=problem))
                else:
                    unit = reach.written(result, facts(task))
                    self.store.commit(unit)
                    if schedule is not None:
                        schedule.pay(*(cost for cost in (unit.cost, *unit.metric_costs.values()) if cost is not None))
                    errors += [
                        Failure(method=label(task.method), metric=metric, sample=task.shard.ids[0], problem=problem)
                        for metric, problem in result.failed.items()
                    ]
                self.observer.finished(task.passes(plan) if self._in_other_processes() else Passes())
        self.observer.end()
        return errors

    def _unit(self, packed: PackedClassifier, variants: RunVariants, task: MissingUnit, engine: EngineChoice) -> Unit:
        return Unit(
            classifier=packed,
            method=task.method,
            metrics=task.metrics,
            samples=self._samples_of(task.shard),
            digests=task.shard.digests,
            targets=task.shard.targets,
            seed=self.seed,
            engine=engine.name,
            variant_rows=engine.variant_rows,
            threads=self._threads(),
            maps=self._maps_at_hand(task),
            variants=variants.packed(task.method, task.metrics),
        )

    def _samples_of(self, shard: Shard) -> Samples:
        """The samples of a shard as they are sent to workers: where they are, not what they show, where that is possible."""
        key = id(self.samples), shard.indices
        if key not in self.last_taken:
            self.last_taken.clear()
            self.last_taken[key] = replace(self.samples.take(list(shard.indices)), skipped=(), notes=())
        return self.last_taken[key]

    def _maps_at_hand(self, task: MissingUnit) -> np.ndarray | None:
        """The maps of a unit that need not be computed."""
        if task.stored is not None:
            return self.store.maps(task.stored)
        return None if task.read_maps is None else task.read_maps()

    # In which process -----------------------------------------------------------------------------------------------------

    def _run_works(
        self, works: Iterator[Work[R]], name: Callable[[str], str], expected: float | None = None
    ) -> Iterator[tuple[str, R | Exception]]:
        return run_all(
            works,
            crew=self.crew,
            on_pass=self.observer.passed,
            on_start=lambda key: self.observer.running(name(key)),
            expected=expected,
            tempo=self.tempo,
        )

    def _in_other_processes(self) -> bool:
        return self.crew is not None

    def _threads(self) -> int | None:
        return self.options.threads or (1 if self._in_other_processes() else None)


def _engine_fields(old: RunRecord | None, choice: EngineChoice) -> dict[str, Any]:
    """How the engine is stored; runs of older versions go on as they were written."""
    if old is not None and old.spec.engine is None:
        return {"compiled": old.spec.compiled}
    return {"engine": choice.name}


def _as_sentence(problem: Exception, what: str) -> SnellenError:
    """The problem as an error that users see as one sentence, which starts with `what`."""
    if isinstance(problem, SnellenError):
        return problem
    refusal = SnellenError(f"{what} ({type(problem).__name__}: {problem})")
    refusal.__cause__ = problem
    return refusal


class UnfinishedError(SnellenError):
    """Some units failed; the run folder holds everything else, and the reasons."""
