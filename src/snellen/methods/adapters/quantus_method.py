"""A function in the style of Quantus, `explain_func(model, inputs, targets, **kwargs) -> array`, as a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.folding import Fold
from snellen.methods.adapters.foreign_method import (
    SIGNED,
    ForeignMethod,
    LogitsModule,
    find,
    name_of,
    settings_text,
)
from snellen.plugins.registry import method
from snellen.types import Images


@method("quantus-explain", cite="hedstrom2023", needs={"gradients"}, listed=False)
@dataclass(frozen=True)
class QuantusMethod(ForeignMethod):
    """The attributions of a function that explains a batch of arrays, as Quantus calls it."""

    explain_func: str = "quantus:explain"
    """`module:name` of the function."""
    settings: str = "{}"
    """Its further keyword arguments, as JSON."""
    fold: Fold = "sum"
    stated: tuple[str, ...] = SIGNED
    """The traits of the maps."""

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Imports the function."""
        find(self.explain_func, "quantus_explain")

    def explain_image(self, module: LogitsModule, inputs: Tensor, target: Tensor, settings: dict[str, Any]) -> Any:
        function = find(self.explain_func, "quantus_explain")
        return function(model=module, inputs=inputs.cpu().numpy(), targets=target.cpu().numpy(), **settings)


def quantus_explain(
    explain_func: Any, *, fold: Fold = "sum", stated: tuple[str, ...] = SIGNED, **kwargs: Any
) -> QuantusMethod:
    """A function `explain_func(model, inputs, targets, **kwargs) -> array`, as Quantus takes it, as a method.

    Args:
        explain_func: the function; inputs and targets are numpy arrays with one row.
        fold: how channels become one number per pixel, where the function returns several.
        stated: the traits of the maps: class-specific, complete, deterministic, implementation-invariant, signed.
        kwargs: its further keyword arguments.
    """
    return QuantusMethod(
        explain_func=name_of(explain_func, "quantus_explain"),
        settings=settings_text(kwargs, "quantus_explain"),
        fold=fold,
        stated=stated,
    )
