"""Which methods and metrics the suite runs, what it must leave out and why, and the run itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.files.remote import is_url
from snellen.images import Samples
from snellen.methods.controls import CONTROLS
from snellen.methods.positive_controls import POSITIVE_CONTROLS
from snellen.plugins.registry import METRICS, label, traits
from snellen.runs import plan as planning
from snellen.runs import requirements
from snellen.runs.progress import Observer
from snellen.runs.settings import Settings, workers_for_short_passes
from snellen.suite.card_tests import TESTS, metrics_by_test
from snellen.suite.grid import Grid
from snellen.types import Findings, Method, Metric, Sample
from snellen.zoo import EMBEDDED

CARD_METHODS = (
    "gradient", "smoothgrad", "guided-backprop", "grad-cam", "integrated-gradients", "input-x-gradient", "xrai",
    "rise", "sis", "lime(samples=300)", "kernel-shap(samples=300)",
)  # fmt: skip
"""The eleven methods of the card's Table A1; two with settings that make thousands of maps affordable."""

QUICK_METHODS = (
    "gradient", "smoothgrad(samples=5)", "guided-backprop", "grad-cam", "integrated-gradients(steps=8)",
    "input-x-gradient", "xrai(steps=4)", "rise(masks=100)", "sis", "lime(samples=60)", "kernel-shap(samples=60)",
)  # fmt: skip
"""The same methods with cheaper settings, for a suite that is not full."""

FIXED_SETTINGS: Mapping[str, Mapping[str, Any]] = {"infidelity": {"scaled": True}}
"""Settings of metrics in every suite: maps of different methods have different units, which must not affect the scores."""

LIGHT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "cascading-randomisation": {"layers": 3},
    "independent-randomisation": {"layers": 3},
    "input-consistency": {"magnitudes": 1},
    "max-sensitivity": {"samples": 3},
    "robustness": {"samples": 3},
    "stability": {"rounds": 2, "candidates": 2},
}
"""Cheaper settings by metric, for a suite that is not full."""

FURTHER_METRICS = ("random-logit",)
"""Run in every suite beside the card's tests: both tests of label sensitivity need trained variants, this one does not."""

DEFAULT_SUBJECT: Mapping[str, str] = {"model": "digits", "images": "zoo:digits"}
"""The default subject: a classifier so small that all tests run in minutes, retraining included."""

SMALL_SUBJECTS: Mapping[str, Mapping[str, str]] = {
    DEFAULT_SUBJECT["model"]: DEFAULT_SUBJECT,
    "digits-many": {"model": "digits-many", "images": "zoo:digits-many", "target": "every-label"},
}
"""Small classifiers with images of their own, by name: their settings where the user names no other images."""

VARIANT_SETTINGS: Mapping[str, str] = {
    "training": "zoo:digits-training",
    "recipe": "zoo:digits",
    "checkpoints": "zoo:digits",
}
"""Settings for training variants of the default subject."""


def subject(settings: Mapping[str, Any], *, full: bool) -> Settings:
    """The settings of a suite: the user's, completed by those of a small classifier where it is the model."""
    values: dict[str, Any] = {}
    small = SMALL_SUBJECTS.get(settings.get("model", DEFAULT_SUBJECT["model"]))
    if small is not None:
        values |= small if settings.get("images", small["images"]) == small["images"] else {"model": small["model"]}
        values |= {"workers": workers_for_short_passes(), "engine": "eager"}
    values |= settings
    if full and values.get("images") == DEFAULT_SUBJECT["images"]:
        values = {**VARIANT_SETTINGS, **values}
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", Path(str(values.get("model", EMBEDDED))).name).strip("-")
    values.setdefault("out", f"runs/suite-{name}")
    if is_url(values["out"]):
        raise SnellenError(
            f"a suite writes its pages beside its run, on this computer, not to '{values['out']}'; give --out"
        )
    return Settings.of(values)


def run_suite(settings: Settings, *, full: bool, observer: Observer, trust: bool = False) -> Grid:
    """Runs every test that this classifier and these images allow, and records for every other test why it was not run.

    Methods and metrics that the settings name are taken as they are; otherwise the eleven methods of the card, and the
    metrics that answer its tests. Four controls are added if no control is named, because verdicts compare with controls;
    and where every image has a truth, it is scored as a map too, as a positive control. `full` adds the tests that need
    trained variants of the classifier, and all other metrics.
    """
    classifier, samples = loaded = settings.load(observer)
    truths, labels = _have_truths_and_labels(samples)
    masks = truths and _cases_have_truths(samples, classifier, settings.target)
    methods, left_out = _supported_methods(classifier, samples, settings, full, masks=masks)
    metrics, unmet = _runnable_metrics(classifier, samples, methods, settings, full, truths=truths, labels=labels)
    # Names of the user stay as they are: the label of path/mine.py:f does not say where the file is.
    chosen = replace(settings, methods=_names(settings.methods, methods), metrics=_names(settings.metrics, metrics))
    return Grid.of(chosen.run_what_works(observer, loaded, trust=trust), unmet=unmet, left_out=left_out)


def _names(stated: Sequence[Any], plugins: Sequence[Method | Metric]) -> tuple[Any, ...]:
    """The plug-ins as the user named them, then by their labels those that were added."""
    return (*stated, *(label(plugin) for plugin in plugins[len(stated) :]))


def _supported_methods(
    classifier: Classifier, samples: Samples, settings: Settings, full: bool, *, masks: bool
) -> tuple[list[Method], dict[str, str]]:
    """The methods that can explain this classifier, controls, with masks positive ones too; and why the others cannot."""
    inputs = classifier.to_inputs(samples[0].image[None])
    names = [
        name if name != "sis" else _sis(inputs.shape[2] * inputs.shape[3])
        for name in (CARD_METHODS if full else QUICK_METHODS)
    ]
    methods = planning.parse_methods(settings.methods or names)
    if not any(traits(method).control for method in methods):
        methods += planning.parse_methods(CONTROLS)
    if masks and not any(traits(method).positive for method in methods):
        methods += planning.parse_methods(POSITIVE_CONTROLS)
    able, left_out = requirements.split_by_support(classifier, methods, inputs)
    if settings.methods and left_out:
        raise SnellenError(next(iter(left_out.values())))
    return able, left_out


def _sis(pixels: int) -> str:
    """Sufficient input subsets in about ten steps, however large the picture."""
    return "sis" if pixels <= 4096 else f"sis(per_step={pixels // 10})"


def _runnable_metrics(
    classifier: Classifier,
    samples: Samples,
    methods: Sequence[Method],
    settings: Settings,
    full: bool,
    *,
    truths: bool,
    labels: bool,
) -> tuple[list[Metric], dict[str, str]]:
    """The metrics that can be run here, and by name why the others cannot.

    `truths` and `labels` are what `_have_truths_and_labels` returns.
    """
    if settings.metrics:
        return planning.parse_metrics(settings.metrics), {}
    metric_names = metrics_by_test()
    names = [metric_names[test] for tests in TESTS.values() for test in tests if test in metric_names]
    names += [name for name in METRICS if name not in names and (full or name in FURTHER_METRICS)]
    size = (int(samples[0].image.shape[1]), int(samples[0].image.shape[2]))
    recipe = settings.recipe is not None and settings.training is not None
    checkpoints = settings.checkpoints is not None
    runnable: list[Metric] = []
    unmet: dict[str, str] = {}
    for name in names:
        metric = METRICS.build(name, {**FIXED_SETTINGS.get(name, {}), **({} if full else LIGHT_SETTINGS.get(name, {}))})
        reason = requirements.missing_requirement(
            metric, classifier, truths=truths, labels=labels, recipe=recipe, checkpoints=checkpoints
        )
        if (
            reason is not None
            and settings.model == DEFAULT_SUBJECT["model"]
            and traits(metric).needs & {"recipe", "checkpoints"}
        ):
            reason = f"{reason}, or --full"
        if reason is None:
            try:
                planning.plan_passes(classifier, methods, [metric], size)
            except SnellenError as refusal:
                reason = str(refusal)
        if reason is None:
            runnable.append(metric)
        else:
            unmet[name] = reason
    return runnable, unmet


def _have_truths_and_labels(samples: Samples) -> tuple[bool, bool]:
    """Whether every sample has a truth, and whether every sample has a label."""
    truths = labels = True
    for sample in samples:
        truths, labels = truths and _has_truth(sample), labels and sample.label is not None
        if not truths and not labels:
            break
    return truths, labels


def _has_truth(sample: Sample) -> bool:
    """Whether the sample has a truth, or one for each of its labels."""
    if sample.truth is not None or not isinstance(sample.label, Findings):
        return sample.truth is not None
    return all(label in sample.truths for label in sample.label.present)


def _cases_have_truths(samples: Samples, classifier: Classifier, target: str | int) -> bool:
    """Whether every target that a run explains has a truth, where each sample has one, or one for each of its labels.

    Of independent labels, one that is explained although it is not right for the image may lack a region.
    """
    head = classifier.head
    if head.exclusive or not head.decides or target in ("label", "every-label"):
        return True
    return all(sample.truth is not None or len(sample.truths) == len(classifier.classes or ()) for sample in samples)
