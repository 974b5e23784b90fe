"""Relatives of the classifier: saved states are read, others trained by the user's recipe before anything is explained."""

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
from snellen.images import Samples, as_samples
from snellen.maps.fitted_state import methods_to_fit
from snellen.plugins.registry import label, traits
from snellen.runs.fitting import fit_state, fitting_samples, using_threads
from snellen.runs.guard import Guard
from snellen.runs.record import Cost, VariantFile, VariantRecord
from snellen.runs.store import PICKLE, Store, key_of, needs_trust
from snellen.runs.unit import PackedClassifier, cost_since
from snellen.types import CHECKPOINT, Method, Metric, NeedsVariants, Passes, Recipe, TrainedVariant, by_number
from snellen.variants.recipes import Training
from snellen.zoo import digits_recipe, training_digits
from snellen.zoo.digit_networks import weight_folder
from snellen.zoo.libraries import fill_weights, read_weights
from snellen.zoo.models import find_object

DIGITS = "zoo:digits"
DIGITS_TRAINING = "zoo:digits-training"

WEIGHTS = ".safetensors"
"""How files of trained relatives end that are weights for the classifier's own module."""

ENDINGS = (".pt", ".pth", ".safetensors")

OPEN = 16
"""So many relatives are held in memory at a time; the others wait in the run folder."""


def find_recipe(recipe: Any) -> Recipe:
    """A recipe from `zoo:digits`, from `package.module:function`, or as it is."""
    found = digits_recipe if recipe == DIGITS else find_object(recipe) if isinstance(recipe, str) else recipe
    if not callable(found):
        raise SnellenError(f"a recipe is a function (dataset, seed, options) -> module, not {recipe!r}")
    return found


def find_training(training: Any, classifier: Classifier) -> Samples:
    """Training pictures from `zoo:digits-training` or whatever samples are made of."""
    if training == DIGITS_TRAINING:
        return training_digits()
    return as_samples(training, geometry=classifier.geometry, channels=classifier.channels, classes=classifier.classes)


def find_checkpoints(checkpoints: Any, classifier: Classifier) -> dict[str, nn.Module]:
    """Saved states by name, in the order of their file names, each put into a copy of the classifier's module.

    `checkpoints` is `zoo:digits`, a folder of state dicts, or state dicts by name. A state that is the classifier itself is
    left out.
    """
    if isinstance(checkpoints, Mapping):
        states = {str(name): (str(name), state) for name, state in checkpoints.items()}
    else:
        folder = weight_folder() if checkpoints == DIGITS else Path(checkpoints)
        if not folder.is_dir():
            raise SnellenError(f"'{folder}' is not a folder of checkpoints")
        files = sorted((path for path in folder.iterdir() if path.suffix in ENDINGS), key=lambda one: by_number(one.name))
        if not files:
            raise SnellenError(f"'{folder}' holds no checkpoints; they are state dicts that end in {', '.join(ENDINGS)}")
        stems = [one.stem for one in files]
        names = [one.stem if stems.count(one.stem) == 1 else one.name for one in files]
        states = {name: (str(file), None) for name, file in zip(names, files, strict=True)}
    found = {}
    for name, (where, given) in states.items():
        module = copy.deepcopy(classifier.module)
        fill_weights(module, read_weights(where, classifier.name) if given is None else given, classifier.name, where)
        if classifier.variant(module, name).fingerprint != classifier.fingerprint:
            found[CHECKPOINT + name] = module.eval()
    if not found:
        raise SnellenError("all checkpoints are the classifier itself; give states that were saved earlier in training")
    return found


def recipe_identity(recipe: Recipe) -> str:
    """Stands for a recipe: its name, the source of its module, where its helpers are too, and what it holds."""
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
    """What a recipe knows beside its source: the fields of its object, or the values that its function was made with."""
    owner = getattr(recipe, "__self__", recipe) if inspect.ismethod(recipe) else recipe
    if inspect.isfunction(owner):
        held = [one.cell_contents for one in owner.__closure__ or ()]
    else:
        held = [] if isinstance(owner, type) else [sorted(vars(owner).items())] if hasattr(owner, "__dict__") else [owner]
    return [re.sub(r" at 0x[0-9a-f]+", "", repr(one)) for one in held]


@dataclass(frozen=True)
class TrainVariants:
    """Trains some relatives one after the other; those that need the same maps stand together. Runs anywhere."""

    relatives: tuple[TrainedVariant, ...]
    recipe: Recipe
    samples: Samples
    labels: tuple[int, ...]
    classifier: PackedClassifier
    seed: int
    threads: int | None

    def __call__(self, on_pass: Callable[[Passes], None] | None = None) -> list[TrainedModule]:
        """Each relative, in their order."""
        classifier = self.classifier.open()
        classifier.use_compiled = False
        training = Training(self.samples, classifier, self.labels)
        with using_threads(self.threads), _own_luck(), torch.enable_grad():
            return [self._guarded(relative, training, classifier) for relative in self.relatives]

    def _guarded(self, relative: TrainedVariant, training: Training, classifier: Classifier) -> TrainedModule:
        with Guard({"the model": classifier}, {"the inputs": training[0][0][None]}).watching(relative.name, SnellenError):
            return self._train(relative, training, classifier)

    def _train(self, relative: TrainedVariant, training: Training, classifier: Classifier) -> TrainedModule:
        started = time.perf_counter()
        with classifier.counting() as paid:
            try:
                module = relative.train(partial(self._ask, relative.name, training), training, classifier, seed=self.seed)
            except SnellenError:
                raise
            except Exception as problem:
                lines = str(problem).strip().splitlines() or [""]
                raise SnellenError(
                    f"the recipe failed while training '{relative.name}' ({type(problem).__name__}: {lines[0]})"
                ) from problem
        content, ending = pack(module.cpu().eval(), relative.name, classifier, training[0][0][None])
        return TrainedModule(content, ending, cost_since(started, paid))

    def _ask(
        self, name: str, training: Training, dataset: Dataset[tuple[Tensor, int]], seed: int, options: Mapping[str, Any]
    ) -> nn.Module:
        """What the recipe returns, after a look at whether it can be used."""
        with no_exit("the recipe", SnellenError):
            module: Any = self.recipe(dataset, seed, options)
        if not isinstance(module, nn.Module):
            kind = type(module).__name__
            raise SnellenError(f"the recipe returned a {kind} for '{name}'; it must return an nn.Module")
        classes = training.classifier.variant(module, name).check(training[0][0][None])
        if classes != options["classes"]:
            raise SnellenError(
                f"the recipe returned a module with {classes} outputs for '{name}', where {options['classes']} were asked "
                "for; let it make as many as options['classes'] says"
            )
        return module


@dataclass(frozen=True)
class TrainedModule:
    """A trained module as `pack` made it, and what it cost; the passes are those for maps, not those of training."""

    module: bytes
    ending: str
    cost: Cost


def pack(module: nn.Module, name: str, classifier: Classifier, inputs: Tensor) -> tuple[bytes, str]:
    """A module as bytes, and how their file should end: its weights alone where the classifier's own module can take them.

    Opening weights executes nothing. Whether they are all that differs is tried on the inputs; a module of another class or
    shape has to be pickled, and unpickling executes whatever was pickled.
    """
    with suppress(Exception), torch.inference_mode():
        content: bytes = save({key: one.detach().clone().contiguous() for key, one in module.state_dict().items()})
        pair = [copy.deepcopy(module), unpack(content, WEIGHTS, classifier).cpu().eval()]
        for one in pair:
            one.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # in one layout they round alike
        kinds = [[type(one) for one in each.modules()] for each in pair]
        outputs = [each(inputs.cpu()) for each in pair]
        if kinds[0] == kinds[1] and str(pair[0]) == str(pair[1]) and torch.equal(*outputs):
            return content, WEIGHTS
    try:
        return pickle.dumps(module), PICKLE
    except Exception as problem:
        raise SnellenError(
            f"what the recipe returned for '{name}' cannot be pickled ({problem}); define its class in an importable module"
        ) from None


def unpack(content: bytes, ending: str, classifier: Classifier) -> nn.Module:
    """The module that `pack` made bytes of; whoever calls it knows where they come from."""
    if ending == PICKLE:
        module: nn.Module = pickle.loads(content)
        return module
    twin = copy.deepcopy(classifier.module)
    twin.load_state_dict(load(content))
    return twin


def _stands_in(relative: TrainedVariant) -> bool:
    """Whether it tells the same classes apart as the classifier; most do."""
    return bool(getattr(relative, "same_classes", True))


@contextmanager
def _own_luck() -> Iterator[None]:
    """A recipe may seed whatever it likes; afterwards the global random states are as before."""
    plain, array = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(array)


@dataclass(eq=False)
class RunVariants:
    """Every relative that the units of a run may ask for, by name, with a digest of its content and what is known of it."""

    classifier: Classifier
    samples: Samples
    store: Store
    seed: int
    batch: int
    trust: bool = False
    """Whether to unpickle relatives that were not made here."""
    facts: dict[str, VariantRecord] = field(default_factory=dict)
    _modules: dict[str, nn.Module] = field(default_factory=dict)
    _open: dict[str, Classifier] = field(default_factory=dict)

    def add_checkpoints(self, modules: Mapping[str, nn.Module]) -> None:
        """Takes saved states in."""
        for name, module in modules.items():
            self._modules[name] = module
            sibling = self._classifier(name)
            self.facts[name] = VariantRecord(digest=sibling.fingerprint, accuracy=self._accuracy(sibling))

    def add_trained(self, relative: TrainedVariant, key: str, trained: TrainedModule) -> None:
        """Keeps a relative in the run folder."""
        module = unpack(trained.module, trained.ending, self.classifier)
        accuracy = self._accuracy(self.classifier.variant(module, relative.name)) if _stands_in(relative) else None
        variant = self.store.put_variant(
            key, trained.module, trained.ending, name=relative.name, accuracy=accuracy, cost=trained.cost
        )
        self._know(relative.name, variant)

    def add_known(self, name: str, key: str) -> bool:
        """Takes a relative from the run folder, if it is there."""
        record = self.store.intact_variant(key)
        if record is not None:
            if needs_trust(record):
                if not self.trust:
                    raise untrusted_folder(self.store.folder, [f"unpickle the trained variant '{name}'"])
                self.store.seal_variants()
            self._know(name, record)
        return record is not None

    def _know(self, name: str, variant: VariantFile) -> None:
        self.facts[name] = VariantRecord(
            digest=variant.file.partition(".")[0], accuracy=variant.accuracy, cost=variant.cost, file=variant.file
        )

    def digests(self, method: Method, metric: Metric) -> dict[str, str]:
        """Which relatives this metric compares this method's maps with, by digest."""
        return {name: self.facts[name].digest for name in self._names(method, metric)}

    def shipped(self, method: Method, metrics: Sequence[Metric]) -> dict[str, PackedClassifier]:
        """What a unit needs of them; the method has learnt on each what it must have learnt before it can explain."""
        found = {}
        for name in dict.fromkeys(name for metric in metrics for name in self._names(method, metric)):
            sibling = self._classifier(name)
            for lesson, learner in methods_to_fit(method).items():
                if lesson not in sibling.fitted_state:
                    pictures = fitting_samples(self.samples, self.seed)
                    sibling.fitted_state[lesson] = fit_state(learner, sibling, pictures, seed=self.seed, batch=self.batch)
            found[name] = PackedClassifier(sibling)
        return found

    def _names(self, method: Method, metric: Metric) -> list[str]:
        names = (
            [trained_variant.name for trained_variant in metric.trained_variants(method)]
            if isinstance(metric, NeedsVariants)
            else []
        )
        if "checkpoints" in traits(metric).needs | traits(metric).optional_needs:
            names += [name for name in self.facts if name.startswith(CHECKPOINT)]
        return names

    def _classifier(self, name: str) -> Classifier:
        if name not in self._open:
            module = self._modules.get(name)
            if module is None:
                file = self.facts[name].file or ""
                module = unpack(self.store.variant_content(file), Path(file).suffix, self.classifier)
            while len(self._open) >= OPEN:
                del self._open[next(iter(self._open))]
            self._open[name] = self.classifier.variant(module, name.removeprefix(CHECKPOINT))
        return self._open[name]

    def _accuracy(self, sibling: Classifier) -> float | None:
        """How often it is right on the run's labelled samples, or on as many of them as a lesson takes."""
        right = []
        pictures = fitting_samples(self.samples, self.seed)
        for start in range(0, len(pictures), self.batch):
            known = [picture for picture in pictures[start : start + self.batch] if picture.label is not None]
            if known:
                inputs = sibling.to_inputs(torch.stack([one.image for one in known]))
                right += (sibling.predictions(inputs) == torch.tensor([one.label for one in known])).tolist()
        return sum(right) / len(right) if right else None


def variants_to_train(metrics: Sequence[Metric], methods: Sequence[Method]) -> dict[str, TrainedVariant]:
    """Every relative that has to be trained, by name."""
    return {
        trained_variant.name: trained_variant
        for method in methods
        for metric in metrics
        if isinstance(metric, NeedsVariants)
        for trained_variant in metric.trained_variants(method)
    }


def variant_keys(
    relatives: Mapping[str, TrainedVariant],
    recipe: Recipe,
    training: Samples,
    classifier: Classifier,
    *,
    seed: int,
    lessons: Mapping[str, str],
) -> dict[str, str]:
    """For each relative what its training depends on, as a key of the store."""
    common = {
        "classifier": classifier.fingerprint,
        "recipe": recipe_identity(recipe),
        "training": key_of([list(pair) for pair in zip(training.ids, training.digests, strict=True)]),
        "seed": seed,
    }
    keys = {}
    for name, relative in relatives.items():
        method = getattr(relative, "method", None)
        facts: dict[str, Any] = {**common, "relative": name, "version": getattr(relative, "version", 1)}
        if method is not None:
            facts |= {"method": [label(method), traits(method).version]}
            facts |= {"lessons": {lesson: lessons[lesson] for lesson in methods_to_fit(method)}}
        keys[name] = key_of(facts)
    return keys


def group_by_maps(relatives: Mapping[str, TrainedVariant]) -> list[tuple[TrainedVariant, ...]]:
    """Those that look at the maps of one method stand together, so that these are computed once."""
    found: dict[str, list[TrainedVariant]] = {}
    for name, relative in relatives.items():
        method = getattr(relative, "method", None)
        found.setdefault(name if method is None else f"maps of {label(method)}", []).append(relative)
    return [tuple(group) for group in found.values()]


def training_labels(training: Samples, classifier: Classifier, classes: int) -> tuple[int, ...]:
    """The label of every training picture; one without, or beyond the classifier's classes, is refused."""
    labels = Training.from_samples(training, classifier).labels
    for sample_id, known in zip(training.ids, labels, strict=True):
        if known >= classes:
            raise SnellenError(
                f"the training picture '{sample_id}' has label {known}, "
                f"but '{classifier.name}' has classes 0 to {classes - 1}"
            )
    return labels
