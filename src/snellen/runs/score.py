"""score(): a metric as a plain function of a model, images and maps, to call from your own loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError, no_exit, short_repr
from snellen.files.documents import check_shape
from snellen.images import Samples, from_arrays
from snellen.maps.explainer import case_of
from snellen.plugins.registry import METHODS, METRICS, label, traits
from snellen.runs import chosen_targets, fitting, requirements
from snellen.runs.guard import Guard
from snellen.runs.options import Seed
from snellen.runs.torch_modes import usual_modes
from snellen.runs.unit import check_scores
from snellen.types import Case, Images, Maps, Method, Metric, Rng, Targets

BATCH = 16
"""Images that are scored at a time, as in a run."""


@usual_modes()
def score(
    metric: Any,
    model: Any,
    images: Any,
    maps: Any = None,
    targets: Any = None,
    *,
    method: Any = None,
    truth: Any = None,
    labels: Any = None,
    ids: Sequence[str] | None = None,
    seed: int = 0,
) -> Float[Tensor, " images"]:
    """One score per image, NaN where the metric is undefined.

    The numbers are those of `evaluate` with the same seed and ids.

    Args:
        metric: A name, a name with settings such as `deletion(steps=28)`, or a metric.
        model: A `Classifier`, or a module or function that becomes one without normalisation.
        images: Pixels in [0, 1], images×channels×height×width, as a tensor or array. A model that wants normalised inputs
            comes as `Classifier(model, mean=..., std=...)`.
        maps: images×height×width; may be left out where `method` is given.
        targets: The explained class of each image, or one for all, by number or name; the predicted class if None.
        method: The method that made the maps, for metrics that explain again.
        truth: images×height×width, for metrics that compare with the truth; what is not zero belongs to the region.
        labels: The true class of each image, for metrics that need it.
        ids: Names of the images, which seed their random draws; numbers by default.
        seed: Changes every random draw.
    """
    check_shape(Seed, seed, "seed")
    scorer = METRICS.parse(metric, load=True)
    explaining = None if method is None else METHODS.parse(method, load=True)
    if explaining is not None:
        requirements.refuse_positive_controls([explaining], "it cannot explain; give the masks as maps= instead")
    name = label(scorer)
    needs = traits(scorer).needs
    if "explain" in needs and explaining is None:
        raise SnellenError(f"{name} explains again, but no method was given; give method=, the method that made the maps")
    if maps is None and explaining is None:
        raise SnellenError(f"{name} has nothing to score: give maps, or method= to compute them")
    if "truth" in needs and truth is None:
        raise SnellenError(f"{name} compares maps with the truth, but there is none; give truth=")
    if "labels" in needs and labels is None:
        raise SnellenError(f"{name} needs the true classes; give labels=")
    classifier = as_classifier(model)
    marked = None if truth is None else as_array(truth, "truth")
    samples = from_arrays(as_array(images, "images"), labels, marked, ids, numbers=not classifier.head.decides)
    inputs = classifier.to_inputs(samples[0].image[None])
    classes = classifier.check(inputs, [sample.label for sample in samples if isinstance(sample.label, int)])
    classifier, chosen, _ = with_targets(targets, classifier, samples, classes)
    missing = requirements.missing_requirement(scorer, classifier, truths=True, labels=True, recipe=False, checkpoints=False)
    if missing is not None:
        trained = needs & {"recipe", "checkpoints"} or "recipe" in missing
        raise SnellenError(
            f"{name} {missing.split(':')[0]}; use snellen.evaluate, which takes it" if trained else f"{name} {missing}"
        )
    checked_maps = None if maps is None else _check_maps(as_array(maps, "maps"), (len(samples), *inputs.shape[2:]))
    fitted_before = dict(classifier.fitted_state)
    try:
        if explaining is not None:
            requirements.check_needs(classifier, [explaining], inputs)
            fit_missing(classifier, [explaining], samples, seed)
        scores = []
        for start in range(0, len(samples), BATCH):
            rows = slice(start, start + BATCH)
            part = tuple(samples[rows])
            case, rng = _case(
                scorer,
                classifier,
                part,
                chosen[rows],
                None if checked_maps is None else checked_maps[rows],
                explaining,
                seed,
            )
            guard = Guard({"the model": classifier}, {"the inputs": case.inputs, "the maps": case.maps})
            with guard.watching(name, SnellenError), torch.no_grad():
                values = scorer(case, rng=rng).detach().cpu()
            try:
                check_scores(scorer, values, len(part))
            except ValueError as problem:
                raise SnellenError(str(problem)) from None
            scores.append(values)
    finally:
        classifier.fitted_state = fitted_before
    return torch.cat(scores)


def _case(
    metric: Metric,
    classifier: Classifier,
    samples: Sequence[Any],
    targets: Targets,
    maps: Maps | None,
    method: Method | None,
    seed: int,
) -> tuple[Case, Rng]:
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in samples]))
    rng = Rng(seed, tuple(sample.id for sample in samples))
    truth = torch.stack([sample.truth for sample in samples]) if samples[0].truth is not None else None
    labels = torch.tensor([sample.label if isinstance(sample.label, int) else -1 for sample in samples])
    if maps is None and method is not None:
        with Guard({"the model": classifier}, {"the inputs": inputs, "the targets": targets}).watching(
            label(method), SnellenError
        ):
            maps = make_maps(method, classifier, inputs, targets, rng)
    case = case_of(
        method or _NoMethod(label(metric)), classifier, inputs, targets, rng=rng, truth=truth, labels=labels, maps=maps
    )
    return case, rng


class _NoMethod:
    """In place of the method where maps were made elsewhere: it cannot explain."""

    def __init__(self, metric: str) -> None:
        self.metric = metric

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        raise SnellenError(
            f"{self.metric} explains again, but no method was given; give method=, the method that made the maps"
        )

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Any:
        raise NotImplementedError  # it stands for maps that are there, so nobody plans it


def make_maps(method: Method, classifier: Classifier, inputs: Images, targets: Targets, rng: Rng) -> Maps:
    """The maps of a method, one finite number per pixel of each image."""
    with torch.no_grad(), no_exit(label(method), SnellenError):
        maps = method(classifier, inputs, targets, rng=rng)
    expected = (len(inputs), *inputs.shape[2:])
    if tuple(maps.shape) != expected:
        actual, needed = ("×".join(map(str, shape)) for shape in (maps.shape, expected))
        raise SnellenError(
            f"{label(method)} gave maps of {actual}, but it must give one number per pixel of each image, {needed}"
        )
    if not bool(maps.isfinite().all()):
        raise SnellenError(f"{label(method)} gave a map with NaN or infinite values")
    return maps.detach().cpu()


def as_classifier(model: Any) -> Classifier:
    """The model as a classifier; a module or function gets pixels as they are."""
    return model if isinstance(model, Classifier) else Classifier(model)


def as_array(values: Any, name: str) -> np.ndarray | Tensor:
    """A tensor in main memory, or an array; `name` is for errors."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype == object:
        raise SnellenError(f"{name} must be one tensor or array, not {short_repr(values)}")
    return array


def _check_maps(maps: np.ndarray | Tensor, shape: tuple[int, ...]) -> Maps:
    if tuple(maps.shape) != shape:
        actual, needed = ("×".join(map(str, sides)) for sides in (maps.shape, shape))
        raise SnellenError(f"maps have the shape {actual}, but these images need {needed}: one number per pixel")
    numbers = maps.is_complex() if isinstance(maps, Tensor) else maps.dtype.kind not in "fiub"
    if numbers:
        raise SnellenError(f"maps hold {maps.dtype}, not real numbers; give one real number per pixel")
    values = torch.as_tensor(maps).float()
    finite = values.flatten(1).isfinite().all(dim=1)
    if not bool(finite.all()):
        raise SnellenError(
            f"maps[{int((~finite).nonzero()[0])}] holds NaN or infinite values, which have no order; leave it out"
        )
    return values


def with_targets(
    targets: Any, classifier: Classifier, samples: Samples, classes: int
) -> tuple[Classifier, Targets, tuple[str, ...]]:
    """The classifier with the target as one of its outputs, the output that each image's map explains, and its name."""
    targets = chosen_targets.plain_target(targets)
    further = chosen_targets.further_target(targets, classifier, classes)
    if further is not None:
        name = chosen_targets.target_name(further, classifier, classes)
        return classifier.with_target(further, name), torch.full((len(samples),), classes), (name,) * len(samples)
    if targets is None or (isinstance(targets, str) and targets in chosen_targets.CHOICES):
        chosen = _by_outputs(targets or "predicted", classifier, samples)
    else:
        if isinstance(targets, np.ndarray | Tensor):
            targets = targets.tolist()
        if isinstance(targets, str | int):
            targets = [targets] * len(samples)
        if not isinstance(targets, Sequence) or len(targets) != len(samples):
            raise SnellenError(f"targets must be one class, or one per image ({len(samples)}), not {short_repr(targets)}")
        chosen = torch.tensor([_class_index(chosen_targets.plain_target(target), classifier, classes) for target in targets])
    names = classifier.classes or [f"class {column}" for column in range(classes)]
    return classifier, chosen, tuple(names[column] for column in chosen.tolist())


def _class_index(target: Any, classifier: Classifier, classes: int) -> int:
    if isinstance(target, bool) or not isinstance(target, str | int):
        raise SnellenError(f"a target is the name or number of a class, not {short_repr(target)}")
    return chosen_targets.class_index(target, classifier, classes)


def _by_outputs(target: str, classifier: Classifier, samples: Samples) -> Targets:
    head = classifier.head
    if target == "every-label" or (target == "predicted" and head.decides and not head.exclusive):
        raise SnellenError(f"'{classifier.name}' may find several labels in one image; name the target of each image")
    if target == "label":
        for sample in samples:
            if not isinstance(sample.label, int):
                raise SnellenError(
                    f"target 'label' needs one label, but '{sample.id}' has not; give labels or name the targets"
                )
        return torch.tensor([sample.label for sample in samples])
    chosen = []
    for start in range(0, len(samples), BATCH):
        images = torch.stack([sample.image for sample in samples[start : start + BATCH]])
        logits = classifier.logits(classifier.to_inputs(images))
        chosen.append(head.least(logits) if target == "least-likely" else head.best(logits))
    return torch.cat(chosen)


def fit_missing(classifier: Classifier, methods: Sequence[Method], samples: Samples, seed: int) -> None:
    """Fits to these images the methods that need it and are not fitted yet."""
    states = fitting.states_to_fit(methods)
    images = fitting.fitting_samples(samples, seed)
    for state, method in states.items():
        if state not in classifier.fitted_state:
            classifier.fitted_state[state] = fitting.fit_state(method, classifier, images, seed=seed)
