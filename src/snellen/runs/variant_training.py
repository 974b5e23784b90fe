"""Variants of the classifier: checkpoints are read, others are trained by the user's recipe before anything is explained."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.utils.data import Dataset

from snellen.classifier import Classifier
from snellen.errors import SnellenError, no_exit
from snellen.files.seals import untrusted_folder
from snellen.images import Samples
from snellen.maps.explaining_again import why_not_scored
from snellen.maps.fitted_state import methods_to_fit
from snellen.plugins.registry import label, traits
from snellen.runs.fitting import fit_state, fitting_samples, using_threads
from snellen.runs.guard import Guard
from snellen.runs.record import Cost, VariantFile, VariantRecord
from snellen.runs.store import PICKLE, Store, key_of, needs_trust
from snellen.runs.subject import samples_for
from snellen.runs.unit import PackedClassifier, cost_since
from snellen.types import CHECKPOINT, Method, Metric, NeedsVariants, Passes, Recipe, TrainedVariant, by_number
from snellen.variants.recipes import Training
from snellen.zoo import digits_recipe, training_digits
from snellen.zoo.digit_networks import weight_folder
from snellen.zoo.models import find_object
from snellen.zoo.sources.weights import fill_weights, read_weights

DIGITS = "zoo:digits"
DIGITS_TRAINING = "zoo:digits-training"

WEIGHTS = ".safetensors"
"""The ending of files of trained variants that hold weights for the classifier's own module."""

ENDINGS = (".pt", ".pth", ".safetensors")

MOST_OPEN = 16
"""The most variants in memory at a time; the others are read from the run folder again."""


def find_recipe(recipe: Any) -> Recipe:
    """A recipe from `zoo:digits`, from `package.module:function`, or a function."""
    function = digits_recipe if recipe == DIGITS else find_object(recipe) if isinstance(recipe, str) else recipe
    if not callable(function):
        raise SnellenError(f"a recipe is a function (dataset, seed, options) -> module, not {recipe!r}")
    return function


def find_training(training: Any, classifier: Classifier) -> Samples:
    """Training images from `zoo:digits-training`, or in any form that `evaluate` takes."""
    if training == DIGITS_TRAINING:
        return training_digits()
    return samples_for(classifier, training)


def find_checkpoints(checkpoints: Any, classifier: Classifier) -> dict[str, nn.Module]:
    """Checkpoints by name, in the order of their file names, each loaded into a copy of the classifier's module.

    Args:
        checkpoints: `zoo:digits`, a folder of state dicts, or state dicts by name. The classifier's own is left out.
        classifier: The classifier that was trained.
    """
    if isinstance(checkpoints, Mapping):
        states = {str(name): (str(name), state) for name, state in checkpoints.items()}
    else:
        folder = weight_folder() if checkpoints == DIGITS else Path(checkpoints)
        if not folder.is_dir():
            raise SnellenError(f"'{folder}' is not a folder of checkpoints")
        files = sorted((path for path in folder.iterdir() if path.suffix in ENDINGS), key=lambda path: by_number(path.name))
        if not files:
            raise SnellenError(f"'{folder}' holds no checkpoints; they are state dicts that end in {', '.join(ENDINGS)}")
        stems = [path.stem for path in files]
        names = [path.stem if stems.count(path.stem) == 1 else path.name for path in files]
        states = {name: (str(file), None) for name, file in zip(names, files, strict=True)}
    modules = {}
    for name, (where, state_dict) in states.items():
        module = copy.deepcopy(classifier.module)
        fill_weights(
            module, read_weights(where, classifier.name) if state_dict is None else state_dict, classifier.name, where
        )
        if classifier.variant(module, name).fingerprint != classifier.fingerprint:
            modules[CHECKPOINT + name] = module.eval()
    if not modules:
        raise SnellenError("all checkpoints are the classifier itself; give states that were saved earlier in training")
    return modules


def recipe_identity(recipe: Recipe) -> str:
    """A hash of a recipe: its name, the source of its module, and the values that it holds."""
    if isinstance(recipe, partial):
        return key_of([recipe_identity(recipe.func), repr(recipe.args), repr(sorted(recipe.keywords.items()))])
    named = recipe if hasattr(recipe, "__qualname__") else type(recipe)
    source = ""
    for whole in (inspect.getmodule(named), named):
        try:
            source = inspect.getsource(whole)  # type: ignore[arg-type]
            break
        except (OSError, TypeError):
            continue
    return key_of([named.__module__, named.__qualname__, source, *_held(recipe)])


def _held(recipe: Recipe) -> list[str]:
    """The values that a recipe uses beside its source: the fields of its object, or the closure of its function."""
    owner = getattr(recipe, "__self__", recipe) if inspect.ismethod(recipe) else recipe
    if inspect.isfunction(owner):
        held = [cell.cell_contents for cell in owner.__closure__ or ()]
    else:
        held = [] if isinstance(owner, type) else [sorted(vars(owner).items())] if hasattr(owner, "__dict__") else [owner]
    return [re.sub(r" at 0x[0-9a-f]+", "", repr(value)) for value in held]


@dataclass(frozen=True, kw_only=True)
class TrainVariants:
    """A picklable call that trains some variants one after the other."""

    variants: tuple[TrainedVariant, ...]
    recipe: Recipe
    samples: Samples
    labels: tuple[int, ...]
    """The class of each training image."""
    classifier: PackedClassifier
    seed: int
    threads: int | None
    """Torch threads; as many as before where None."""

    def __call__(self, on_pass: Callable[[Passes], None] | None = None) -> list[TrainedModule]:
        """The trained modules, in the order of the variants."""
        classifier = self.classifier.open()
        classifier.use_eager()
        training = Training(self.samples, classifier, self.labels)
        with using_threads(self.threads), _restoring_random_states(), torch.enable_grad():
            return [self._guarded(variant, training, classifier) for variant in self.variants]

    def _guarded(self, variant: TrainedVariant, training: Training, classifier: Classifier) -> TrainedModule:
        with Guard({"the model": classifier}, {"the inputs": training[0][0][None]}).watching(variant.name, SnellenError):
            return self._train(variant, training, classifier)

    def _train(self, variant: TrainedVariant, training: Training, classifier: Classifier) -> TrainedModule:
        started = time.perf_counter()
        with classifier.counting() as paid:
            try:
                module = variant.train(
                    partial(self._call_recipe, variant.name, training), training, classifier, seed=self.seed
                )
            except SnellenError:
                raise
            except Exception as problem:
                lines = str(problem).strip().splitlines() or [""]
                raise SnellenError(
                    f"the recipe failed while training '{variant.name}' ({type(problem).__name__}: {lines[0]})"
                ) from problem
        content, ending = pack(module.cpu().eval(), variant.name, classifier, training[0][0][None])
        return TrainedModule(content, ending, cost_since(started, paid))

    def _call_recipe(
        self, name: str, training: Training, dataset: Dataset[tuple[Tensor, int]], seed: int, options: Mapping[str, Any]
    ) -> nn.Module:
        """The module that the recipe returns, after checks that it can be used."""
        with no_exit("the recipe", SnellenError):
            module: Any = self.recipe(dataset, seed, options)
        if not isinstance(module, nn.Module):
            kind = type(module).__name__
            raise SnellenError(f"the recipe returned a {kind} for '{name}'; it must return an nn.Module")
        classes = training.classifier.variant(module, name).check(training[0][0][None])
        if classes != options["classes"]:
            raise SnellenError(
                f"the recipe returned a module with {classes} outputs for '{name}', instead of {options['classes']}; "
                "let it make as many as options['classes'] says"
            )
        return module


@dataclass(frozen=True)
class TrainedModule:
    """A trained module as `pack` made it, and its cost. The passes are those for maps, not those of training."""

    module: bytes
    """As `pack` made it."""
    ending: str
    """Of the file that will hold it."""
    cost: Cost


def pack(module: nn.Module, name: str, classifier: Classifier, inputs: Tensor) -> tuple[bytes, str]:
    """A module as bytes, and the ending of their file: its weights alone where the classifier's own module can take them.

    Loading weights executes nothing. Whether weights are enough is tried on the inputs. A module of another class or shape
    is pickled, and unpickling executes whatever was pickled.

    Args:
        module: The trained module.
        name: Of the variant, for errors.
        classifier: The classifier that it is a variant of.
        inputs: Of one image.
    """
    with suppress(Exception), torch.inference_mode():
        content: bytes = save({key: values.detach().clone().contiguous() for key, values in module.state_dict().items()})
        pair = [copy.deepcopy(module), unpack(content, WEIGHTS, classifier).cpu().eval()]
        for copied in pair:
            copied.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # in one layout they round alike
        kinds = [[type(part) for part in copied.modules()] for copied in pair]
        outputs = [copied(inputs.cpu()) for copied in pair]
        if kinds[0] == kinds[1] and str(pair[0]) == str(pair[1]) and torch.equal(*outputs):
            return content, WEIGHTS
    try:
        return pickle.dumps(module), PICKLE
    except Exception as problem:
        raise SnellenError(
            f"what the recipe returned for '{name}' cannot be pickled ({problem}); define its class in an importable module"
        ) from None


def unpack(content: bytes, ending: str, classifier: Classifier) -> nn.Module:
    """The module that `pack` made bytes of. Pickled bytes are executed: call it for trusted files only."""
    if ending == PICKLE:
        module: nn.Module = pickle.loads(content)
        return module
    own = copy.deepcopy(classifier.module)
    own.load_state_dict(load(content))
    return own


def _has_same_classes(variant: TrainedVariant) -> bool:
    """Whether a variant has the classes of the classifier; most do."""
    return bool(getattr(variant, "same_classes", True))


@contextmanager
def _restoring_random_states() -> Iterator[None]:
    """Restores the global random states afterwards: a recipe may seed what it likes."""
    plain, array = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(array)


@dataclass(eq=False, kw_only=True)
class RunVariants:
    """The variants that the units of a run may need, by name, read from the run folder when they are used."""

    classifier: Classifier
    samples: Samples
    store: Store
    seed: int
    batch: int
    """Images per pass."""
    trust: bool = False
    """Whether to unpickle variants that were not made on this machine."""
    facts: dict[str, VariantRecord] = field(default_factory=dict)
    """By name, what the record says of each variant."""
    _modules: dict[str, nn.Module] = field(default_factory=dict)
    _open: dict[str, Classifier] = field(default_factory=dict)

    def add_checkpoints(self, modules: Mapping[str, nn.Module]) -> None:
        """Adds checkpoints of the classifier."""
        for name, module in modules.items():
            self._modules[name] = module
            classifier = self._classifier(name)
            self.facts[name] = VariantRecord(digest=classifier.fingerprint, accuracy=self._accuracy(classifier))

    def add_trained(self, variant: TrainedVariant, key: str, trained: TrainedModule) -> None:
        """Adds a variant that was trained now, and stores it in the run folder."""
        module = unpack(trained.module, trained.ending, self.classifier)
        accuracy = self._accuracy(self.classifier.variant(module, variant.name)) if _has_same_classes(variant) else None
        stored = self.store.put_variant(
            key, trained.module, trained.ending, name=variant.name, accuracy=accuracy, cost=trained.cost
        )
        self._add_record(variant.name, stored)

    def add_stored(self, name: str, key: str) -> bool:
        """Adds a variant from the run folder; False where it is not there."""
        record = self.store.intact_variant(key)
        if record is not None:
            if needs_trust(record):
                if not self.trust:
                    raise untrusted_folder(self.store.folder, [f"unpickle the trained variant '{name}'"])
                self.store.seal_variants()
            self._add_record(name, record)
        return record is not None

    def _add_record(self, name: str, variant: VariantFile) -> None:
        self.facts[name] = VariantRecord(
            digest=variant.file.partition(".")[0], accuracy=variant.accuracy, cost=variant.cost, file=variant.file
        )

    def digests(self, method: Method, metric: Metric) -> dict[str, str]:
        """The digests of the variants that this metric compares this method's maps with, by name."""
        return {name: self.facts[name].digest for name in self._names(method, metric)}

    def packed(self, method: Method, metrics: Sequence[Metric]) -> dict[str, PackedClassifier]:
        """The variants that a unit needs, with the method fitted to each where it needs a fit."""
        classifiers = {}
        for name in dict.fromkeys(name for metric in metrics for name in self._names(method, metric)):
            classifier = self._classifier(name)
            for state, fitter in methods_to_fit(method).items():
                if state not in classifier.fitted_state:
                    samples = fitting_samples(self.samples, self.seed)
                    classifier.fitted_state[state] = fit_state(fitter, classifier, samples, seed=self.seed, batch=self.batch)
            classifiers[name] = PackedClassifier(classifier)
        return classifiers

    def _names(self, method: Method, metric: Metric) -> list[str]:
        if why_not_scored(method, metric) is not None:
            return []
        variants: tuple[TrainedVariant, ...] = ()
        # Of its class Python remembers whether it follows a protocol, which is a hundred times as quick.
        if issubclass(type(metric), NeedsVariants) and isinstance(metric, NeedsVariants):
            variants = metric.trained_variants(method)
        names = [variant.name for variant in variants]
        if "checkpoints" in traits(metric).needs | traits(metric).optional_needs:
            names += [name for name in self.facts if name.startswith(CHECKPOINT)]
        return names

    def _classifier(self, name: str) -> Classifier:
        if name not in self._open:
            module = self._modules.get(name)
            if module is None:
                file = self.facts[name].file or ""
                module = unpack(self.store.variant_content(file), Path(file).suffix, self.classifier)
            while len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            self._open[name] = self.classifier.variant(module, name.removeprefix(CHECKPOINT))
        return self._open[name]

    def _accuracy(self, classifier: Classifier) -> float | None:
        """The accuracy on the labelled samples among those that methods are fitted to; None where no sample has a label."""
        right = []
        samples = fitting_samples(self.samples, self.seed)
        for start in range(0, len(samples), self.batch):
            labelled = [sample for sample in samples[start : start + self.batch] if isinstance(sample.label, int)]
            if labelled:
                inputs = classifier.to_inputs(torch.stack([sample.image for sample in labelled]))
                right += (classifier.predictions(inputs) == torch.tensor([sample.label for sample in labelled])).tolist()
        return sum(right) / len(right) if right else None


def variants_to_train(metrics: Sequence[Metric], methods: Sequence[Method]) -> dict[str, TrainedVariant]:
    """The variants that the metrics need trained, by name."""
    return {
        variant.name: variant
        for method in methods
        for metric in metrics
        if isinstance(metric, NeedsVariants) and why_not_scored(method, metric) is None
        for variant in metric.trained_variants(method)
    }


def variant_keys(
    variants: Mapping[str, TrainedVariant],
    recipe: Recipe,
    training: Samples,
    classifier: Classifier,
    *,
    seed: int,
    fitted_digests: Mapping[str, str],
) -> dict[str, str]:
    """The key of each variant in the store: a hash of all that its training depends on.

    Args:
        variants: By name.
        recipe: The recipe that trains them.
        training: The images for the recipe.
        classifier: The classifier that they are variants of.
        seed: Of the run.
        fitted_digests: By name of the fitted state, for variants that are trained on maps.
    """
    common = {
        "classifier": classifier.fingerprint,
        "recipe": recipe_identity(recipe),
        "training": key_of([list(pair) for pair in zip(training.ids, training.digests, strict=True)]),
        "seed": seed,
    }
    keys = {}
    for name, variant in variants.items():
        method = getattr(variant, "method", None)
        facts: dict[str, Any] = {**common, "relative": name, "version": getattr(variant, "version", 1)}
        if method is not None:
            facts |= {"method": [label(method), traits(method).version]}
            facts |= {"lessons": {state: fitted_digests[state] for state in methods_to_fit(method)}}
        keys[name] = key_of(facts)
    return keys


def group_by_maps(variants: Mapping[str, TrainedVariant]) -> list[tuple[TrainedVariant, ...]]:
    """Groups of variants that need the maps of the same method, so that these are computed once."""
    grouped: dict[str, list[TrainedVariant]] = {}
    for name, variant in variants.items():
        method = getattr(variant, "method", None)
        grouped.setdefault(name if method is None else f"maps of {label(method)}", []).append(variant)
    return [tuple(group) for group in grouped.values()]


def training_labels(training: Samples, classifier: Classifier, classes: int) -> tuple[int, ...]:
    """The label of every training image; a missing label, or one beyond the classifier's classes, is refused."""
    labels = Training.from_samples(training, classifier).labels
    for sample_id, index in zip(training.ids, labels, strict=True):
        if index >= classes:
            raise SnellenError(
                f"the training image '{sample_id}' has label {index}, but '{classifier.name}' has classes 0 to {classes - 1}"
            )
    return labels
