"""The nouns that every room shares: Sample, Rng, Case, Scores, Passes, and what a plug-in must offer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from snellen.classifier import Classifier
    from snellen.variants.recipes import Training

Output = Literal["logit", "probability"]
"""Which number of the classifier is meant; stated wherever one is used, never implied."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One picture with what is known about it.

    `image` holds pixels in [0, 1] as (3, height, width), or (1, height, width) for a grey classifier. `label` is a class
    index, or None when nobody knows. `truth` marks the region that a right map should point to. `group` names what the
    picture shares with others, such as a patient: pictures of one group count as drawn together.
    """

    id: str
    image: Float[Tensor, "channels height width"]
    label: int | None = None
    truth: Bool[Tensor, "height width"] | None = None
    group: str | None = None


@dataclass(frozen=True)
class Passes:
    """How many images went forward and backward through the model; a batch of 16 counts 16."""

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def __sub__(self, other: Passes) -> Passes:
        return Passes(self.forward - other.forward, self.backward - other.backward)

    def __mul__(self, times: int) -> Passes:
        return Passes(self.forward * times, self.backward * times)

    __rmul__ = __mul__


@dataclass(frozen=True)
class Rng:
    """Randomness as a value: every draw is named and depends on (seed, sample id, names), never on batch or order.

    There is no state. The same name gives the same numbers again, so a draw that should differ needs another name.

    >>> rng = Rng(seed=0, ids=("a", "b"))
    >>> bool((rng.uniform("noise", (3,))[1] == rng[1:].uniform("noise", (3,))[0]).all())
    True
    """

    seed: int
    ids: tuple[str, ...]
    path: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> Rng:
        return replace(self, ids=self.ids[rows])

    def child(self, name: str) -> Rng:
        """The same samples under another name: all draws differ from the parent's."""
        return replace(self, path=f"{self.path}/{name}")

    def repeat(self, copies: Sequence[int] | range) -> Rng:
        """Each sample once per copy number, sample-major, as `tensor.repeat_interleave(len(copies), 0)` lays rows out."""
        return replace(self, ids=tuple(f"{one}#{copy}" for one in self.ids for copy in copies))

    def shared(self, name: str) -> np.random.Generator:
        """One generator for the whole run (a mask bank): depends on the seed and the name alone."""
        return self._generator("", name)

    def uniform(self, name: str, shape: tuple[int, ...]) -> Float[Tensor, "batch ..."]:
        """Numbers in [0, 1), one block of `shape` per sample."""
        return self._stack(name, shape, lambda generator: generator.random(shape, dtype=np.float32))

    def normal(self, name: str, shape: tuple[int, ...]) -> Float[Tensor, "batch ..."]:
        """Standard normal numbers, one block of `shape` per sample."""
        return self._stack(name, shape, lambda generator: generator.standard_normal(shape, dtype=np.float32))

    def _stack(self, name: str, shape: tuple[int, ...], draw: _Draw) -> Tensor:
        rows = np.empty((len(self.ids), *shape), dtype=np.float32)
        for row, one in zip(rows, self.ids, strict=True):
            row[...] = draw(self._generator(one, f"{self.path}/{name}"))
        return torch.from_numpy(rows)

    def _generator(self, one: str, name: str) -> np.random.Generator:
        key = hashlib.blake2b(f"{self.seed}\0{one}\0{name}".encode(), digest_size=16).digest()
        return np.random.Generator(np.random.SFC64(int.from_bytes(key, "little")))


@runtime_checkable
class _Draw(Protocol):
    def __call__(self, generator: np.random.Generator, /) -> np.ndarray: ...


@runtime_checkable
class Method(Protocol):
    """A saliency method: a frozen dataclass whose fields are its settings.

    The map is signed and raw, one number per pixel of the input: no normalisation, no clipping that the method's own
    definition does not contain.
    """

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]: ...

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """What one image of this height and width costs on this classifier; the contract suite counts and compares.

        Where the cost hangs on the picture itself, the most that it can be; the method then says `at_most=True`.
        """
        ...


@runtime_checkable
class Fill(Protocol):
    """What stands where something was removed."""

    def __call__(
        self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"], *, rng: Rng
    ) -> Float[Tensor, "batch channels height width"]: ...


@runtime_checkable
class Condition(Protocol):
    """What happens to every picture of a run before anybody looks at it; label and truth go along."""

    def __call__(self, sample: Sample, partner: Sample | None, *, rng: Rng) -> Sample:
        """The changed sample under the same id and size; `partner` is another one, for a condition that mixes two."""
        ...


@runtime_checkable
class Explain(Protocol):
    """The same method object again, on other inputs, targets or another classifier; memoised by content."""

    def __call__(
        self,
        inputs: Float[Tensor, "batch channels height width"],
        *,
        targets: Int[Tensor, " batch"] | None = None,
        classifier: Classifier | None = None,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]: ...


CHECKPOINT = "checkpoint/"
"""How the name of a saved state begins among the siblings of a case."""


def by_number(name: str) -> list[tuple[int, str]]:
    """Sorts names of saved states, epoch-2 before epoch-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass(frozen=True, eq=False)
class Case:
    """All that a metric may look at: one batch of inputs, the maps of one method, and that method to call again.

    `siblings` are relatives of the classifier that somebody trained (see `Related`) or saved on the way (their names begin
    with `checkpoint/`). `labels` are the right classes, -1 where nobody knows.
    """

    classifier: Classifier
    inputs: Float[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    maps: Float[Tensor, "batch height width"]
    explain: Explain
    truth: Bool[Tensor, "batch height width"] | None = None
    siblings: Mapping[str, Classifier] = field(default_factory=dict)
    labels: Int[Tensor, " batch"] | None = None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the inputs, and of the maps."""
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])


@runtime_checkable
class Metric(Protocol):
    """A test of maps: a frozen dataclass whose fields are its settings; one number per sample, NaN where undefined."""

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]: ...

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """What one image costs on this classifier, given what one map of the method costs."""
        ...


@runtime_checkable
class Traced(Protocol):
    """A metric whose number summarises a curve: `score(curve(case))` is what calling it gives."""

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]: ...

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]: ...


@runtime_checkable
class Named(Protocol):
    """A metric whose trace has a column per named thing (a transform, a layer, a fraction) rather than one even axis."""

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the columns of `curve`, for images of this size."""
        ...


@runtime_checkable
class Dividing(Protocol):
    """A metric that needs some of the same passes as others; of equal keys only the first is paid.

    A key that is a tuple beginning with "images" holds for every method on the same images; any other for one method's case.
    """

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """What may be there already, out of `passes`, by a key that says what it is."""
        ...


@runtime_checkable
class Recipe(Protocol):
    """How a relative of the classifier is trained: any function of this form.

    `dataset` yields (input, label) pairs, an input being what the network sees; `seed` decides initial weights and order;
    `options` may hold `classes` (how many there are) and `architecture: "other"` (train another kind of network).
    """

    def __call__(self, dataset: Dataset[tuple[Tensor, int]], seed: int, options: Mapping[str, Any]) -> nn.Module: ...


@runtime_checkable
class Relative(Protocol):
    """A sibling that has to be trained first: a frozen dataclass whose `name` says what is special about it."""

    @property
    def name(self) -> str:
        """How a case names it among its siblings; two relatives with one name are one."""
        ...

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """The trained module; it takes the same inputs as the classifier."""
        ...


@runtime_checkable
class Related(Protocol):
    """A metric that compares with trained relatives; a run trains them first, once, and keeps them in its folder."""

    def relatives(self, method: Method) -> tuple[Relative, ...]:
        """Which; `method` matters only to a test that trains on what a method's maps leave over."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A method that must see some of the user's images first; what it learns is kept in `classifier.learned[lesson()]`."""

    def lesson(self) -> str:
        """Names what is learnt, with the settings that change it; two methods with the same lesson share it."""
        ...

    def learn(
        self, classifier: Classifier, images: Iterable[Float[Tensor, "_ channels height width"]], *, rng: Rng
    ) -> dict[str, Tensor]:
        """What the images teach, from inputs given batch by batch."""
        ...


@runtime_checkable
class Sharing(Protocol):
    """A method that needs the same passes as others on the same images; of equal answers, only the first pays."""

    def shares(self) -> Hashable: ...


@dataclass(frozen=True, eq=False)
class Scores:
    """What one metric, or the people of a study, said of one method's maps, sample by sample."""

    method: str
    metric: str
    ids: tuple[str, ...]
    values: Float[Tensor, " batch"]
    curve: Float[Tensor, "batch points"] | None = None
    source: Literal["metric", "human", "simulated"] = "metric"
    """Who judged; simulated people are nobody, and what they said counts nowhere."""
