"""Types used by the whole package: Sample, Rng, Case, Scores, Passes, and the protocols of plug-ins."""

from __future__ import annotations

import hashlib
import math
import re
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from snellen.classifier import Classifier
    from snellen.variants.recipes import Training

Images = Float[Tensor, "batch channels height width"]
"""Normalised inputs, except where pixels are meant."""
Targets = Int[Tensor, " batch"]
"""The explained class of each image."""
Maps = Float[Tensor, "batch height width"]

Output = Literal["logit", "probability"]
"""Which output of the classifier is meant."""


@dataclass(frozen=True)
class Findings:
    """Which of several independent labels are right for an image; a label in neither tuple is unknown."""

    present: tuple[int, ...]
    """Indices of the labels that are right."""
    absent: tuple[int, ...] = ()
    """Indices of those that are wrong."""
    columns: int | None = field(default=None, repr=False, compare=False)
    """How many labels there are, where an array with a mark for each says so."""


@dataclass(frozen=True, eq=False)
class Sample:
    """An image with its id, label and ground truth."""

    id: str
    """Its name, unique in a run, such as the path of its file."""
    image: Float[Tensor, "channels height width"]
    """Pixels in [0, 1]; 3 channels, 1 for a greyscale classifier, or as many as the classifier takes."""
    label: int | Findings | None = None
    """Index of the true class, or which of several labels are right; None if unlabelled."""
    truth: Bool[Tensor, "height width"] | None = None
    """The region that a correct map should highlight."""
    group: str | None = None
    """What the image has in common with others, such as a patient; images of one group are not independent."""
    truths: Mapping[int, Bool[Tensor, "height width"]] = field(default_factory=dict)
    """Where labels have regions of their own: the region of each, by the index of the label."""
    target: int | None = None
    """The target of its maps, where a run explains several targets of one image."""
    number: float | None = None
    """The true number, where the model estimates one, such as an age."""


@dataclass(frozen=True)
class Passes:
    """Number of images that went forward and backward through the model; a batch of 16 counts as 16."""

    forward: int = 0
    """Images that went forward."""
    backward: int = 0
    """Images that went backward."""

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def __sub__(self, other: Passes) -> Passes:
        return Passes(self.forward - other.forward, self.backward - other.backward)

    def __mul__(self, times: int) -> Passes:
        return Passes(self.forward * times, self.backward * times)

    __rmul__ = __mul__


@dataclass(frozen=True)
class Rng:
    """Random numbers that depend only on (seed, sample id, name), never on batch size or order of calls.

    It has no state: drawing twice under one name gives the same numbers, so different draws need different names.

    >>> rng = Rng(seed=0, ids=("a", "b"))
    >>> bool((rng.uniform("noise", (3,))[1] == rng[1:].uniform("noise", (3,))[0]).all())
    True
    """

    seed: int
    """The run's seed."""
    ids: tuple[str, ...]
    """Ids of the samples, in the order of a batch."""
    path: str = ""
    """Names of the parents, as given to `child`."""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> Rng:
        return replace(self, ids=self.ids[rows])

    def child(self, name: str) -> Rng:
        """An Rng for the same samples whose draws all differ from this one's."""
        return replace(self, path=f"{self.path}/{name}")

    def repeat(self, copies: Sequence[int] | range) -> Rng:
        """Each sample once per copy number, in the row order of `tensor.repeat_interleave(len(copies), 0)`."""
        return replace(self, ids=tuple(f"{sample_id}#{copy}" for sample_id in self.ids for copy in copies))

    def shared(self, name: str) -> np.random.Generator:
        """A generator that depends on seed and name only, for draws that all samples have in common."""
        return self._generator("", name)

    def uniform(self, name: str, shape: tuple[int, ...]) -> Float[Tensor, "batch ..."]:
        """Uniform numbers in [0, 1), one block of `shape` per sample."""
        return self._draw(name, shape, "uniform")

    def normal(self, name: str, shape: tuple[int, ...]) -> Float[Tensor, "batch ..."]:
        """Standard normal numbers, one block of `shape` per sample."""
        return self._draw(name, shape, "normal")

    def _draw(self, name: str, shape: tuple[int, ...], kind: _Distribution) -> Tensor:
        # Every method of a run asks for the same few numbers, and making a generator takes longer than using it.
        small = len(self.ids) * math.prod(shape) <= _MOST_CACHED_NUMBERS
        return torch.from_numpy(
            _cached_numbers(self, name, shape, kind).copy() if small else _numbers(self, name, shape, kind)
        )

    def _generator(self, sample_id: str, name: str) -> np.random.Generator:
        key = hashlib.blake2b(f"{self.seed}\0{sample_id}\0{name}".encode(), digest_size=16).digest()
        return np.random.Generator(np.random.SFC64(int.from_bytes(key, "little")))


_Distribution = Literal["uniform", "normal"]

_MOST_CACHED_NUMBERS = 1 << 18
"""The most numbers of a draw that is cached, 1 MiB."""


def _numbers(rng: Rng, name: str, shape: tuple[int, ...], kind: _Distribution) -> Float[np.ndarray, "batch ..."]:
    """A block of numbers per sample."""
    rows = np.empty((len(rng.ids), *shape), dtype=np.float32)
    for row, sample_id in zip(rows, rng.ids, strict=True):
        generator = rng._generator(sample_id, f"{rng.path}/{name}")
        row[...] = generator.random(shape, np.float32) if kind == "uniform" else generator.standard_normal(shape, np.float32)
    return rows


_cached_numbers = lru_cache(maxsize=32)(_numbers)


@runtime_checkable
class Method(Protocol):
    """A saliency method: a frozen dataclass whose fields are its settings.

    It returns signed, raw maps with one number per input pixel: no normalisation or clipping beyond the method's definition.
    """

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps: ...

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """Cost of explaining one image of `size` (height, width); the contract suite compares it with the real count.

        Where the cost depends on the image, this is the maximum, and the method is registered with `at_most=True`.
        """
        ...


@runtime_checkable
class MadeOfTruth(Protocol):
    """A positive control: a method whose maps are made of the truth of a run's samples, which no other method sees."""

    def maps_of(self, truth: Bool[Tensor, "batch height width"]) -> Maps:
        """A map per mask."""
        ...


@runtime_checkable
class Fill(Protocol):
    """What replaces removed pixels: it returns inputs of the same shape to copy from."""

    def __call__(self, classifier: Classifier, inputs: Images, *, rng: Rng) -> Images: ...


@runtime_checkable
class Condition(Protocol):
    """A change made to every sample of a run, such as noise; label and truth change with the image."""

    def __call__(self, sample: Sample, partner: Sample | None, *, rng: Rng) -> Sample:
        """The changed sample, with the same id and size; `partner` is another sample, for conditions that mix two."""
        ...


@runtime_checkable
class Explain(Protocol):
    """Runs the method of a case again, on other inputs, targets or another classifier; results are cached by content."""

    def __call__(
        self, inputs: Images, *, targets: Targets | None = None, classifier: Classifier | None = None, rng: Rng
    ) -> Maps: ...


CHECKPOINT = "checkpoint/"
"""Prefix of the names of training checkpoints in `Case.variants`."""


def by_number(name: str) -> list[tuple[int, str]]:
    """Sort key that puts epoch-2 before epoch-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass(frozen=True, eq=False)
class Case:
    """What a metric scores: a batch of inputs, the maps of one method for them, and a way to run that method again."""

    classifier: Classifier
    """The model that is explained."""
    inputs: Float[Tensor, "batch channels height width"]
    """Normalised images."""
    targets: Int[Tensor, " batch"]
    """The explained class of each image."""
    maps: Float[Tensor, "batch height width"]
    """The method's map of each image, signed and raw."""
    explain: Explain
    """Runs the same method again."""
    truth: Bool[Tensor, "batch height width"] | None = None
    """The region of each image that a correct map should highlight; None where there are no masks."""
    variants: Mapping[str, Classifier] = field(default_factory=dict)
    """Variants of the classifier by name: trained ones (see `NeedsVariants`) and checkpoints (`checkpoint/...`)."""
    labels: Int[Tensor, " batch"] | None = None
    """True classes, -1 where unlabelled."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the inputs, and of the maps."""
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])


@runtime_checkable
class Metric(Protocol):
    """A score of maps: a frozen dataclass whose fields are its settings; one number per sample, NaN where undefined."""

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]: ...

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """Cost of scoring one image of `size` (height, width), if one map costs `explain`."""
        ...


@runtime_checkable
class CurveMetric(Protocol):
    """A metric whose number summarises a curve.

    A class that inherits from it defines `curve` and `score`; calling the metric applies one after the other.
    """

    @abstractmethod
    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]: ...

    @abstractmethod
    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]: ...

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return self.score(self.curve(case, rng=rng))


@runtime_checkable
class HasPoints(Protocol):
    """A metric whose curve has named points, such as transforms, layers or fractions, instead of evenly spaced ones."""

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """Names of the columns of `curve`, for images of `size` (height, width)."""
        ...


@runtime_checkable
class SharedPasses(Protocol):
    """A metric that can use results which another metric has cached: of metrics with equal keys only the first makes passes.

    A tuple key that begins with "images" is valid for all methods on the same images; any other key for one method's case.
    A metric whose results may all come from the cache inherits from it: it defines `parts`, and `passes` is their sum.
    """

    @abstractmethod
    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The part of `passes` that may come from the cache, by cache key."""
        ...

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """Cost of scoring one image with an empty cache."""
        return sum(self.parts(size, explain, classifier).values(), Passes())


class OneGradient(Protocol):
    """A method that runs the classifier once each way: it inherits from this class instead of defining `passes`."""

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward."""
        return Passes(1, 1)


class WithoutClassifier(Protocol):
    """A method that never runs the classifier: it inherits from this class instead of defining `passes`."""

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """No passes."""
        return Passes()


class NoPasses(Protocol):
    """A metric that runs neither the classifier nor the method: it inherits from this class instead of defining `passes`."""

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """No passes."""
        return Passes()


@runtime_checkable
class ReadsOutputs(Protocol):
    """A method or metric whose settings have no meaning for some outputs, beyond what `needs_output` says."""

    def output_problem(self, classifier: Classifier) -> str | None:
        """Why it refuses this classifier's outputs, as words that follow its name; None where it takes them."""
        ...


@runtime_checkable
class Recipe(Protocol):
    """A function that trains a variant of the classifier.

    Args:
        dataset: (input, label) pairs; an input is normalised, as the network receives it.
        seed: decides the initial weights and the order of the data.
        options: may hold `classes` (their number) and `architecture: "other"` (train another kind of network).
    """

    def __call__(self, dataset: Dataset[tuple[Tensor, int]], seed: int, options: Mapping[str, Any]) -> nn.Module: ...


@runtime_checkable
class TrainedVariant(Protocol):
    """A variant of the classifier that must be trained: a frozen dataclass."""

    @property
    def name(self) -> str:
        """Its key in `Case.variants`; variants of equal name are trained once."""
        ...

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """The trained module, which takes the same inputs as the classifier."""
        ...


@runtime_checkable
class NeedsVariants(Protocol):
    """A metric that compares with trained variants; a run trains each of them once and stores it in its folder."""

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """The variants; they depend on `method` only for metrics that train on images changed by the method's maps."""
        ...


@runtime_checkable
class NeedsFit(Protocol):
    """A method that must be fitted to some of the user's images; the result is `classifier.fitted_state[fit_key()]`."""

    def fit_key(self) -> str:
        """Names the fitted state and the settings that change it; methods of equal key use the same state."""
        ...

    def fit(
        self, classifier: Classifier, images: Iterable[Float[Tensor, "_ channels height width"]], *, rng: Rng
    ) -> dict[str, Tensor]:
        """The fitted state; `images` are batches of inputs."""
        ...


@runtime_checkable
class HasCacheKey(Protocol):
    """A method whose passes the classifier caches: of methods with equal keys only the first makes them."""

    def cache_key(self) -> Hashable: ...


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one method's maps by one metric, or by people, sample by sample."""

    method: str
    """Label of the method."""
    metric: str
    """Label of the metric."""
    ids: tuple[str, ...]
    """Id of each sample."""
    values: Float[Tensor, " batch"]
    """The score of each sample, NaN where undefined."""
    curve: Float[Tensor, "batch points"] | None = None
    """The curve that each score summarises, for metrics with one."""
    source: Literal["metric", "human", "simulated"] = "metric"
    """Who scored. Scores of simulated participants never count as evidence."""
