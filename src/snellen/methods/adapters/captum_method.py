"""An attribution class of captum as a method."""

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


@method("captum", cite="kokhlikyan2020", needs={"gradients"}, listed=False)
@dataclass(frozen=True)
class CaptumMethod(ForeignMethod):
    """The attributions of a captum class, with channels folded to one number per pixel."""

    attribution: str = "captum.attr:Saliency"
    """`module:name` of a class, or of a function from the module to an attribution object."""
    settings: str = "{}"
    """Keyword arguments of `attribute`, as JSON."""
    fold: Fold = "sum"
    stated: tuple[str, ...] = SIGNED
    """The traits of the maps."""

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Imports captum."""
        find(self.attribution, "captum")

    def explain_image(self, module: LogitsModule, inputs: Tensor, target: Tensor, settings: dict[str, Any]) -> Tensor:
        inputs.requires_grad_()
        # JSON has no tuples, and captum takes no lists, such as for sliding_window_shapes.
        options = {name: _with_tuples(value) for name, value in settings.items()}
        attributions: Tensor = find(self.attribution, "captum")(module).attribute(inputs, target=target, **options)
        return attributions


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def captum(attribution: Any, *, fold: Fold = "sum", stated: tuple[str, ...] = SIGNED, **settings: Any) -> CaptumMethod:
    """A captum attribution class, such as `captum.attr.IntegratedGradients`, as a method.

    Args:
        attribution: the class, or a function from the module to an attribution object (to choose a layer or a baseline).
        fold: how channels become one number per pixel.
        stated: the traits of the maps: class-specific, complete, deterministic, implementation-invariant, signed.
        settings: keyword arguments of `attribute`, such as n_steps.
    """
    return CaptumMethod(
        attribution=name_of(attribution, "captum"), settings=settings_text(settings, "captum"), fold=fold, stated=stated
    )
