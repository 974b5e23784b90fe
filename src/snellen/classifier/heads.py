"""Heads: what the outputs of a model mean, and the probabilities, decisions and words that follow from it.

A head turns what the model returns into one *logit* per column, and logits into probabilities. Targets are columns, so a
method or metric works with every head. Columns beyond those of the model are further targets (`WithTargets`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.classifier.targets import FurtherTarget
from snellen.errors import SnellenError, nearest
from snellen.plugins.notation import read_plugin, write_value

Form = Literal["logits", "probabilities"]
"""What a model itself returns."""

SMALLEST = 1e-12
"""Probabilities below this are taken as this when logits are computed from them."""

Logits = Float[Tensor, "rows columns"]


class Head(ABC):
    """What the outputs of a model mean: a frozen dataclass."""

    kind: ClassVar[str]
    """How a user names the head."""
    words: ClassVar[str]
    """What the outputs are, for pages and messages."""
    decides: ClassVar[bool] = True
    """Whether the model decides about a target, so that a decision can change."""
    exclusive: ClassVar[bool] = True
    """Whether exactly one class is right per image."""
    smallest: ClassVar[int] = 2
    """The smallest number of outputs that a model with this head has."""
    outputs_as_columns: ClassVar[bool] = True
    """Whether every column is an output of the model itself, not computed from others."""

    @property
    def form(self) -> Form:
        """Whether the model itself returns logits or probabilities."""
        return getattr(self, "outputs", "logits")

    @property
    def reads_probability(self) -> bool:
        """Whether every column has a probability."""
        return True

    @property
    def decides_targets(self) -> bool:
        """Whether the model decides about every column, further targets included."""
        return self.decides

    @property
    def text(self) -> str:
        """The head with its settings as text, as `read_head` reads it."""
        settings = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]  # type: ignore[arg-type]
        written = ", ".join(
            f"{name}=[{', '.join(map(write_value, value))}]" if isinstance(value, tuple) else f"{name}={write_value(value)}"
            for name, value, default in settings
            if value != default
        )
        return f"{self.kind}({written})" if written else self.kind

    @property
    def key(self) -> str:
        """What the head adds to the fingerprint of a classifier."""
        return self.text

    def columns(self, outputs: int) -> int:
        """The number of columns of a model with this number of outputs; further targets do not count."""
        return outputs

    def column_names(self, classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Names of the columns, from names of the classes."""
        return classes

    @abstractmethod
    def logits(self, raw: Float[Tensor, "rows outputs"]) -> Logits:
        """One logit per column, from what the model returns."""

    @abstractmethod
    def raw(self, logits: Logits) -> Float[Tensor, "rows outputs"]:
        """What the model returns, from logits: the inverse of `logits`."""

    @abstractmethod
    def probabilities(self, logits: Logits) -> Logits:
        """The probability of each column."""

    @abstractmethod
    def decisions(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """The column that the model decides for; of independent labels the target itself if it is predicted, else -1."""

    def loss(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Float[Tensor, ""]:
        """-log(probability) of each row's target, summed over the rows."""
        return -_log(self.probabilities(logits).gather(1, targets.view(-1, 1))).sum()

    def predicted(self, logits: Logits) -> tuple[tuple[int, ...], ...]:
        """The columns that the model predicts for each row."""
        return tuple((column,) for column in self.best(logits).tolist())

    def own(self, logits: Logits) -> Float[Tensor, "rows own"]:
        """The columns of the model itself, without further targets."""
        return logits

    def best(self, logits: Logits) -> Int[Tensor, " rows"]:
        """The column with the highest logit."""
        return logits.argmax(dim=1)

    def least(self, logits: Logits) -> Int[Tensor, " rows"]:
        """The column with the lowest logit."""
        return logits.argmin(dim=1)


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(SMALLEST).log()


@dataclass(frozen=True)
class ExclusiveClasses(Head):
    """One class is right per image: a softmax over all outputs."""

    kind = "exclusive-classes"
    words = "exclusive classes"

    outputs: Form = "logits"
    """Whether the model itself returns logits or probabilities."""

    def logits(self, raw: Float[Tensor, "rows outputs"]) -> Logits:
        return _log(raw) if self.outputs == "probabilities" else raw

    def raw(self, logits: Logits) -> Float[Tensor, "rows outputs"]:
        return logits.exp() if self.outputs == "probabilities" else logits

    def probabilities(self, logits: Logits) -> Logits:
        return logits.softmax(dim=1)

    @property
    def key(self) -> str:
        return self.outputs  # as before there were other heads, so that older runs resume

    def loss(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Float[Tensor, ""]:
        return functional.cross_entropy(logits, targets, reduction="sum")

    def decisions(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        return logits.argmax(dim=1)


@dataclass(frozen=True)
class IndependentLabels(Head):
    """Any number of labels is right per image: a sigmoid per output.

    `thresholds` are the probabilities from which a label is predicted, one for all labels or one per label.
    """

    kind = "independent-labels"
    words = "independent labels"
    exclusive = False
    smallest = 1

    outputs: Form = "logits"
    """Whether the model itself returns logits or probabilities."""
    thresholds: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        if not isinstance(self.thresholds, tuple):
            stated = self.thresholds if isinstance(self.thresholds, list) else [self.thresholds]
            object.__setattr__(self, "thresholds", tuple(stated))
        _check_thresholds(self.thresholds)

    def logits(self, raw: Float[Tensor, "rows outputs"]) -> Logits:
        return _log(raw) - _log(1 - raw) if self.outputs == "probabilities" else raw

    def raw(self, logits: Logits) -> Float[Tensor, "rows outputs"]:
        return logits.sigmoid() if self.outputs == "probabilities" else logits

    def probabilities(self, logits: Logits) -> Logits:
        return logits.sigmoid()

    def decisions(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        yes = self._above(logits).gather(1, targets.to(logits.device).view(-1, 1)).squeeze(1)
        return torch.where(yes, targets.to(logits.device), -1)

    def predicted(self, logits: Logits) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(row.nonzero().flatten().tolist()) for row in self._above(logits))

    def _above(self, logits: Logits) -> Tensor:
        if len(self.thresholds) not in (1, logits.shape[1]):
            raise SnellenError(
                f"there are {len(self.thresholds)} thresholds for {logits.shape[1]} labels; give one, or one per label"
            )
        return self.probabilities(logits) >= torch.tensor(self.thresholds).to(logits)


@dataclass(frozen=True)
class SingleLogit(Head):
    """Yes or no, from a single output z: the columns no and yes have the logits -z and z, and sigmoids of these.

    So a map of no is that of yes with its sign changed.
    """

    kind = "single-logit"
    words = "a single yes-or-no output"
    smallest = 1
    outputs_as_columns = False

    outputs: Form = "logits"
    """Whether the model itself returns a logit or a probability."""
    threshold: float = 0.5
    """The probability of yes from which the model decides for yes."""

    def __post_init__(self) -> None:
        _check_thresholds((self.threshold,))

    def columns(self, outputs: int) -> int:
        return 2

    def column_names(self, classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if classes is None:
            return ("no", "yes")
        return (f"not {classes[0]}", classes[0]) if len(classes) == 1 else classes

    def logits(self, raw: Float[Tensor, "rows outputs"]) -> Logits:
        if raw.shape[1] != 1:
            raise SnellenError(f"a single logit was stated, but the model has {raw.shape[1]} outputs")
        yes = _log(raw) - _log(1 - raw) if self.outputs == "probabilities" else raw
        return torch.cat([-yes, yes], dim=1)

    def raw(self, logits: Logits) -> Float[Tensor, "rows outputs"]:
        yes = logits[:, 1:]
        return yes.sigmoid() if self.outputs == "probabilities" else yes

    def probabilities(self, logits: Logits) -> Logits:
        return logits.sigmoid()

    def decisions(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        return self.best(logits)

    def best(self, logits: Logits) -> Int[Tensor, " rows"]:
        return (self.probabilities(logits)[:, 1] >= self.threshold).long()

    def least(self, logits: Logits) -> Int[Tensor, " rows"]:
        return 1 - self.best(logits)


@dataclass(frozen=True)
class Number(Head):
    """A number, such as an age: the only column is the number itself.

    Where a range is stated, metrics that read a probability read the place of the number between `low` and `high`
    instead, from 0 to 1; where none is, they refuse.
    """

    kind = "number"
    words = "a number"
    decides = False
    exclusive = False
    smallest = 1

    unit: str = ""
    """What the number counts, such as "years"; for pages."""
    low: float | int | None = None
    """The smallest number that is expected, in `unit`."""
    high: float | int | None = None
    """The largest number that is expected, in `unit`."""

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise SnellenError("a number's range needs both low and high")
        if (
            self.low is not None
            and self.high is not None
            and not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high)
        ):
            raise SnellenError(f"a number's range goes from low to high, not from {self.low} to {self.high}")

    @property
    def reads_probability(self) -> bool:
        return self.low is not None

    def column_names(self, classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return classes or (f"number in {self.unit}" if self.unit else "number",)

    def logits(self, raw: Float[Tensor, "rows outputs"]) -> Logits:
        if raw.shape[1] != 1:
            raise SnellenError(f"a number was stated, but the model has {raw.shape[1]} outputs")
        return raw

    def raw(self, logits: Logits) -> Float[Tensor, "rows outputs"]:
        return logits

    def probabilities(self, logits: Logits) -> Logits:
        if self.low is None or self.high is None:
            return torch.full_like(logits, torch.nan)
        return ((logits - self.low) / (self.high - self.low)).clamp(0, 1)

    def decisions(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        return targets.to(logits.device)


@dataclass(frozen=True)
class WithTargets(Head):
    """A head with further targets, each a column after those of the model."""

    kind = "with-targets"
    outputs_as_columns = False

    head: Head
    """The head of the model itself."""
    further: tuple[FurtherTarget, ...]
    """The further targets, in the order of their columns."""

    @property
    def words(self) -> str:  # type: ignore[override]
        return self.head.words

    @property
    def decides(self) -> bool:  # type: ignore[override]
        return self.head.decides

    @property
    def exclusive(self) -> bool:  # type: ignore[override]
        return self.head.exclusive

    @property
    def smallest(self) -> int:  # type: ignore[override]
        return self.head.smallest

    @property
    def form(self) -> Form:
        return self.head.form

    @property
    def reads_probability(self) -> bool:
        return self.head.reads_probability and all(target.reads_probability for target in self.further)

    @property
    def decides_targets(self) -> bool:
        return self.head.decides and all(target.decides for target in self.further)

    @property
    def text(self) -> str:
        return f"{self.head.text} with {', '.join(target.text for target in self.further)}"

    def columns(self, outputs: int) -> int:
        return self.head.columns(outputs)

    def column_names(self, classes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return classes if classes is not None else self.head.column_names(None)

    def own(self, logits: Logits) -> Float[Tensor, "rows own"]:
        return logits[:, : logits.shape[1] - len(self.further)]

    def logits(self, raw: Float[Tensor, "rows outputs"]) -> Logits:
        own = self.head.logits(raw)
        return torch.cat([own, *(target.logit(own).view(-1, 1) for target in self.further)], dim=1)

    def raw(self, logits: Logits) -> Float[Tensor, "rows outputs"]:
        return self.head.raw(self.own(logits))

    def probabilities(self, logits: Logits) -> Logits:
        own = self.head.probabilities(self.own(logits))
        return torch.cat([own, *(target.probability(self.own(logits), own).view(-1, 1) for target in self.further)], dim=1)

    def decisions(self, logits: Logits, targets: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        own, targets = self.own(logits), targets.to(logits.device)
        decided = self.head.decisions(own, targets.clamp_max(own.shape[1] - 1))
        for place, target in enumerate(self.further, start=own.shape[1]):
            # A further target is the decision where its logit is positive.
            yes = target.logit(own) > 0 if target.decides else torch.ones_like(targets, dtype=torch.bool)
            decided = torch.where(targets == place, torch.where(yes, targets, -1), decided)
        return decided

    def predicted(self, logits: Logits) -> tuple[tuple[int, ...], ...]:
        return self.head.predicted(self.own(logits))

    def best(self, logits: Logits) -> Int[Tensor, " rows"]:
        return self.head.best(self.own(logits))

    def least(self, logits: Logits) -> Int[Tensor, " rows"]:
        return self.head.least(self.own(logits))


HEADS: dict[str, type[Head]] = {head.kind: head for head in (ExclusiveClasses, IndependentLabels, SingleLogit, Number)}
"""The kinds of heads that a user may state, by name."""


def read_head(stated: Head | str, outputs: str | None = None) -> Head:
    """The head that a user states as an object or as text.

    >>> read_head("independent-labels(thresholds=[0.3, 0.5])").thresholds
    (0.3, 0.5)
    >>> read_head("number(unit=years, low=0, high=100)").text
    'number(unit=years, low=0, high=100)'

    Args:
        stated: the head, or its kind with settings in brackets.
        outputs: "logits" or "probabilities", where that is stated beside the head.
    """
    if isinstance(stated, Head):
        if outputs is not None and outputs != stated.form:
            raise SnellenError(f"outputs is '{outputs}', but the head says '{stated.form}'; state it once")
        return stated
    kind, settings = read_plugin(stated)
    if kind not in HEADS:
        raise SnellenError(f"heads is one of {', '.join(HEADS)}, not '{kind}'{nearest(kind, list(HEADS)) or ''}".rstrip(";"))
    names = [field.name for field in fields(HEADS[kind])]  # type: ignore[arg-type]
    if outputs is not None and "outputs" in names:
        settings.setdefault("outputs", outputs)
    for name in settings:
        if name not in names:
            raise SnellenError(f"{kind} has no setting '{name}'; it has {', '.join(names)}")
    return HEADS[kind](**{name: _setting(kind, name, value) for name, value in settings.items()})


def _setting(kind: str, name: str, value: Any) -> Any:
    if name == "outputs":
        if value not in get_args(Form):
            raise SnellenError(f"outputs must be 'logits' or 'probabilities', not {value!r}")
        return value
    if name == "unit":
        return str(value)
    values: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    if not values or any(isinstance(number, bool) or not isinstance(number, int | float) for number in values):
        raise SnellenError(f"{name} of {kind} must be a number, not {value!r}")
    return tuple(map(float, values)) if name == "thresholds" else value


def _check_thresholds(thresholds: tuple[float, ...]) -> None:
    for threshold in thresholds:
        if not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise SnellenError(f"a threshold is a probability between 0 and 1, not {threshold!r}")
