"""The attributes of methodology, measured on the user's own model: determinism, hyperparameters, needs and costs.

Results are stored in RUN/methodology: timings, plan and findings in one file that is written atomically, and the repeated
maps in run folders of their own, so that an interrupted measurement continues and a finished one is not repeated. The files
of the run itself do not change.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict, cast

import torch

from snellen.cards.card_json import plain
from snellen.cards.card_set import MethodFindings, source_of
from snellen.cards.costs import MapCost, agnosticism, efficiency, expected, measure_cost
from snellen.cards.determinism import determinism, repetitions
from snellen.cards.loaded_run import FOLDER, LoadedRun, failures
from snellen.cards.schema import Finding
from snellen.cards.sweeps import SettingTrial, UntriedValue, afford, cheap_metrics, dependence, trials_of
from snellen.errors import SnellenError
from snellen.files.folder import folder_at
from snellen.files.integrity import DamagedError, dump_record, parse_record
from snellen.plugins.outside import needs_in_words
from snellen.plugins.registry import METHODS, METRICS, Attribute, label, traits
from snellen.report.readable import Readable
from snellen.runs import Run
from snellen.runs.machine import machine
from snellen.runs.progress import Observer, default_observer, duration, weight_of
from snellen.types import Passes

FILE = "measured.json"
_FILE = f"{FOLDER}/{FILE}"
SCHEMA = 2

PASSES = 600
"""The budget of each method for repeated maps, in forward passes; a third of it is for other seeds.

This is for images of 224×224; for smaller ones the budget grows in proportion. It is not a time, because on a busy machine
fewer settings would be tried, which would change grades. It is not divided among the methods, so that what is tried of one
does not depend on the other methods of the run.
"""
PIXELS = 224 * 224


class MeasuredSubject(TypedDict):
    """What the maps of a run depend on, except the methods."""

    classifier: str
    """Its fingerprint."""
    samples: str
    """The digest of the images."""
    target: str | int
    seed: int
    versions: dict[str, int]
    """By label of a method."""


class MethodPlan(TypedDict):
    """Which additional maps of one method are computed."""

    repeated: tuple[int, int]
    """Images, and other seeds for each; a list in the file."""
    swept: int
    """Images that are explained with other settings."""
    trials: list[tuple[str, str, str, float]]
    """Setting, value, the method with it, and the cost of a map in forward passes; lists in the file."""
    left: list[UntriedValue]
    """Lists in the file."""


class MeasuredState(TypedDict):
    """What `measured.json` holds; methods are named by their labels."""

    schema: int
    about: MeasuredSubject
    asked: dict[str, int] | None
    """The images, seeds and passes that the user asked for; None before."""
    machine: dict[str, str | int | float | None]
    """On which costs were measured."""
    costs: dict[str, dict[str, Any]]
    """By method, the fields of its `MapCost`."""
    plan: dict[str, MethodPlan]
    metrics: list[str]
    """That rank methods."""
    findings: dict[str, dict[Attribute, dict[str, Any]]]
    """By method and attribute, the fields of a `Finding` without its source."""


def read(run: Readable) -> MethodFindings:
    """The stored findings on this run's methods; empty if nothing was measured."""
    state = _read(run)
    source = source_of(run)
    try:
        return {
            name: {
                attribute: Finding(
                    **{**finding, "share": math.nan if finding["share"] is None else finding["share"], "source": source}
                )
                for attribute, finding in findings.items()
            }
            for name, findings in state["findings"].items()
            if name in {method.label for method in run.record.spec.methods}
        }
    except (KeyError, TypeError, AttributeError):
        raise _unreadable(run) from None


def measure(
    run: Run,
    *,
    observer: Observer | None = None,
    images: int = 4,
    seeds: int = 3,
    passes: int = PASSES,
    classifier: Any = None,
    samples: Any = None,
    trust: bool = False,
) -> MethodFindings:
    """Measures every method of a run that was not measured yet, and stores the findings in the run's folder.

    Costly methods get fewer images and fewer values, but always two seeds and one value of every setting.

    Args:
        run: The run.
        observer: Receives progress.
        images: At most so many images are explained again, with other seeds and other settings.
        seeds: At most so many other seeds.
        passes: Forward passes per method, about (see `PASSES`).
        classifier: Needed only for a run made from Python objects; else loaded by the run's settings.
        samples: Likewise.
        trust: Whether to load the model of a run that was not made on this machine.
    """
    for name, value, minimum in (("images", images, 1), ("seeds", seeds, 2), ("passes", passes, 0)):
        if value < minimum:
            raise SnellenError(f"{name} must be at least {minimum} to measure methodology, not {value}")
    tried = {*run.explained, *failures(run)}
    if not tried:
        raise SnellenError(f"'{run.folder}' has no maps yet; continue it first: snellen resume {run.folder}")
    effort = {"images": images, "seeds": seeds, "passes": passes}
    state = _read(run)
    if state["asked"] != effort:
        state = {**_new_state(run), "asked": effort}
    missing = [method for method in run.methods if method in tried and method not in state["findings"]]
    if missing:
        loaded = LoadedRun.of(run, classifier, samples, observer or default_observer(), trust=trust)
        count = min(images, len(loaded.samples))
        _Measurement(loaded=loaded, state=state, images=count, seeds=seeds, passes=passes).run(missing)
    return read(run)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Measurement:
    loaded: LoadedRun
    state: MeasuredState
    images: int
    seeds: int
    passes: int

    def run(self, missing: Sequence[str]) -> None:
        """Measures costs, plans, repeats maps and stores the findings; stored results are reused."""
        started = time.perf_counter()
        methods = [name for name in missing if name in self.loaded.methods]
        self._time([method for method in methods if method not in self.state["costs"]])
        self._plan([method for method in methods if method not in self.state["plan"]])
        self._announce(methods)
        repeated = self._repeat(methods)
        swept = self._sweep(methods, {label: findings[0].share for label, findings in repeated.items()})
        for name in missing:
            findings = swept.get(name, []) + repeated.get(name, [])
            self.state["findings"][name] = {
                finding.attribute: _as_json(finding) for finding in [*findings, *self._facts(name)]
            }
        self._save()
        self.loaded.observer.note(
            f"methodology of {len(missing)} methods measured in {duration(time.perf_counter() - started)}; "
            f"stored in '{_file(self.loaded.run)}'"
        )

    # Timing and planning --------------------------------------------------------------------------------------------

    def _time(self, names: Sequence[str]) -> None:
        loaded = self.loaded
        if not names:
            return
        every = [loaded.methods[name] for name in names]
        passes = sum((expected(method, loaded) for method in every), Passes())
        loaded.observer.note(
            f"timing {len(names)} methods on one image at a time, "
            f"about {duration(loaded.pass_seconds.seconds(passes))} in the model"
        )
        with loaded.fitted(every, seed=loaded.run.record.spec.seed):
            loaded.observer.begin("timing", passes, len(names))
            try:
                for name, method in zip(names, every, strict=True):
                    loaded.observer.running(f"timing {name}")
                    self.state["costs"][name] = asdict(measure_cost(method, loaded, loaded.observer.passed))
                    loaded.observer.finished(Passes())
                    self._save()
            finally:
                loaded.observer.end()

    def _plan(self, names: Sequence[str]) -> None:
        """Plans the repeated maps from numbers of passes, not times: the same run always gets the same plan."""
        if not names:
            return
        loaded = self.loaded
        metrics = cheap_metrics(loaded, loaded.ids(self.images))
        scoring = weight_of(sum((metric.passes(loaded.size, Passes(), loaded.classifier) for metric in metrics), Passes()))
        budget = self.passes * max(1.0, PIXELS / math.prod(loaded.size))
        for name in names:
            trials, impossible = trials_of(loaded.methods[name], loaded, scoring)
            affordable, images, too_costly = afford(trials, self.images, budget * 2 / 3)
            self.state["plan"][name] = {
                "repeated": repetitions(self._weight(name), self.images, self.seeds, budget / 3),
                "swept": images,
                "trials": [(trial.setting, trial.value, label(trial.method), trial.weight) for trial in affordable],
                "left": [*impossible, *too_costly],
            }
        self.state["metrics"] = [label(metric) for metric in metrics]
        self._save()

    def _announce(self, names: Sequence[str]) -> None:
        """Reports the expected time: the measured time of one map, scaled by the weight of each trial."""
        again = other = left = 0
        seconds = 0.0
        for name in names:
            plan, own = self.state["plan"][name], max(1.0, self._weight(name))
            repeats, weights = math.prod(plan["repeated"]), [max(1.0, trial[3]) for trial in plan["trials"]]
            again += repeats
            other += plan["swept"] * len(weights)
            left += len(plan["left"])
            seconds += self._cost(name).seconds * (repeats + plan["swept"] * sum(weights) / own)
        run_name = folder_at(self.loaded.run.folder).name
        self.loaded.observer.note(
            f"{len(names)} methods of '{run_name}': {again:,} maps with up to {self.seeds} other seeds "
            f"and {other:,} maps with other settings, about {duration(seconds)}; {left} values of settings are left out"
        )

    # Additional maps --------------------------------------------------------------------------------------------

    def _repeat(self, names: Sequence[str]) -> dict[str, list[Finding]]:
        """Determinism, from maps with other seeds."""
        loaded, repeated = self.loaded, dict[str, list[Finding]]()
        first = loaded.run.record.spec.seed
        for images, seeds in sorted({tuple(self.state["plan"][name]["repeated"]) for name in names}):
            group = [name for name in names if tuple(self.state["plan"][name]["repeated"]) == (images, seeds)]
            methods = [loaded.methods[name] for name in group]
            sides = [
                loaded.explain(f"seed-{seed}-of-{seeds}", methods, images=images, seed=seed, metrics=())
                for seed in range(first + 1, first + 1 + seeds)
            ]
            for name in group:
                broken = [fault.problem for side in sides for fault in side.record.errors if fault.method == name]
                if broken:
                    repeated[name] = [_unknown("determinism", f"it failed with another seed ({broken[0]})")]
                    continue
                maps = [torch.from_numpy(run.maps(name, loaded.ids(images))) for run in sides]
                repeated[name] = [determinism(torch.from_numpy(loaded.maps(name, images)), maps)]
        return repeated

    def _sweep(self, names: Sequence[str], chance: Mapping[str, float]) -> dict[str, list[Finding]]:
        """Hyperparameter dependence, from maps with other settings; a setting that two methods share is explained once.

        They get another seed than the run's maps: with the same seed, shared random draws would make maps look alike.
        """
        loaded, swept = self.loaded, dict[str, list[Finding]]()
        seed = loaded.run.record.spec.seed + 1
        metrics = [METRICS.parse(metric) for metric in self.state["metrics"]]
        for images in sorted({self.state["plan"][name]["swept"] for name in names}):
            group = {
                name: [
                    SettingTrial(setting=trial[0], value=trial[1], method=METHODS.parse(trial[2]), weight=trial[3])
                    for trial in self.state["plan"][name]["trials"]
                ]
                for name in names
                if self.state["plan"][name]["swept"] == images
            }
            every = {label(trial.method): trial.method for trials in group.values() for trial in trials}
            side = None
            if every:
                side = loaded.explain(
                    f"settings-seed-{seed}", list(every.values()), images=images, seed=seed, metrics=metrics
                )
            for name, trials in group.items():
                left = [(trial[0], trial[1], trial[2]) for trial in self.state["plan"][name]["left"]]
                swept[name] = [dependence(name, trials, left, loaded, side, loaded.ids(images), chance[name])]
        return swept

    # Needs and costs ---------------------------------------------------------------------------------------------------

    def _facts(self, name: str) -> list[Finding]:
        """The findings on needs and costs; for a method that failed in the run, only that on needs."""
        loaded, rows = self.loaded, self.loaded.run.record.samples.count
        if name not in loaded.methods:
            spec = next(method for method in loaded.run.record.spec.methods if method.label == name)
            method = METHODS.build(spec.name, spec.params)
            return [agnosticism(needs_in_words(traits(method)), rows, failures(loaded.run)[name])]
        method = loaded.methods[name]
        return [
            agnosticism(needs_in_words(traits(method)), rows, None),
            efficiency(self._cost(name), method, loaded, self.state["machine"]),
        ]

    def _cost(self, name: str) -> MapCost:
        return MapCost(**self.state["costs"][name])

    def _weight(self, name: str) -> float:
        """The cost of one map with the run's settings, in forward passes."""
        return weight_of(self.loaded.passes(self.loaded.methods[name]))

    def _save(self) -> None:
        folder = folder_at(self.loaded.run.folder)
        try:
            folder.write_whole(_FILE, dump_record(dict(self.state)))
        except OSError as problem:
            raise SnellenError(
                f"cannot write to '{folder}/{FOLDER}' ({problem.strerror}); copy the run to a folder that can be written"
            ) from None


def _unknown(attribute: Attribute, reason: str) -> Finding:
    return Finding(attribute=attribute, word="not known", sentence=f"Not measured: {reason}.", share=math.nan)


def _unreadable(run: Readable) -> SnellenError:
    return SnellenError(f"'{_file(run)}' cannot be read; delete it, and the methodology is measured again")


def _file(run: Readable) -> str:
    return f"{run.folder}/{_FILE}"


def _subject_facts(run: Readable) -> MeasuredSubject:
    """What the run's maps depend on, except the methods."""
    record, spec = run.record, run.record.spec
    return {
        "classifier": record.classifier.fingerprint,
        "samples": record.samples.digest,
        "target": spec.target,
        "seed": spec.seed,
        "versions": {method.label: method.version for method in spec.methods},
    }


def _new_state(run: Readable) -> MeasuredState:
    return {
        "schema": SCHEMA, "about": _subject_facts(run), "asked": None, "machine": machine(),
        "costs": {}, "plan": {}, "metrics": [], "findings": {},
    }  # fmt: skip


def _read(run: Readable) -> MeasuredState:
    """The stored state, or an empty one if there is none or it belongs to another model or other images."""
    folder, empty = folder_at(run.folder), _new_state(run)
    try:
        state = parse_record(folder.read(_FILE), _FILE, "delete it")
        then, now = dict(state["about"]), dict(empty["about"])
        same = state["schema"] == SCHEMA
        before, versions = then.pop("versions"), empty["about"]["versions"]
        now.pop("versions")
        same = same and then == now and all(versions.get(name, version) == version for name, version in before.items())
    except FileNotFoundError:
        return empty
    except (DamagedError, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise _unreadable(run) from None
    return cast("MeasuredState", state | {"about": empty["about"]}) if same else empty


def _as_json(finding: Finding) -> dict[str, Any]:
    """A finding without its source, which is the run."""
    return {name: value for name, value in plain(finding).items() if name != "source"}
