"""A class of the pytorch-grad-cam package as a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.folding import Fold
from snellen.methods.adapters.foreign_method import (
    UNSIGNED,
    ForeignMethod,
    LogitsModule,
    find,
    name_of,
    settings_text,
)
from snellen.plugins.registry import method
from snellen.types import Images


@method("pytorch-grad-cam", cite="selvaraju2017", family="class-activation", needs={"gradients", "layer"}, listed=False)
@dataclass(frozen=True)
class GradCamMethod(ForeignMethod):
    """The maps of a pytorch-grad-cam class, which are stretched to [0, 1]."""

    cam: str = "pytorch_grad_cam:GradCAM"
    """`module:name` of the class."""
    target_layers: tuple[str, ...] = ()
    """Names of layers; by default the last one whose features have spatial positions."""
    settings: str = "{}"
    """Keyword arguments of the call, such as aug_smooth, as JSON."""
    fold: Fold = "sum"
    stated: tuple[str, ...] = UNSIGNED
    """The traits of the maps."""

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Imports the package and finds the layers."""
        find(self.cam, "grad_cam")
        names = dict(classifier.module.named_modules())
        for layer in self.target_layers or (classifier.feature_layer(inputs),):
            if layer not in names:
                raise SnellenError(f"grad_cam: '{classifier.name}' has no layer '{layer}'")

    def explain_image(self, module: LogitsModule, inputs: Tensor, target: Tensor, settings: dict[str, Any]) -> Any:
        inputs.requires_grad_()
        target_of = find("pytorch_grad_cam.utils.model_targets:ClassifierOutputTarget", "grad_cam")
        names = self.target_layers or (module.snellen_classifier.feature_layer(inputs),)
        layers = [module.snellen_module.get_submodule(name) for name in names]
        layout = module.snellen_classifier.layer_layouts(inputs.detach()).layout(names[0])  # tokens become a grid
        to_map = None if layout is None else layout.to_map
        with find(self.cam, "grad_cam")(model=module, target_layers=layers, reshape_transform=to_map) as cam:
            return cam(inputs, targets=[target_of(int(target))], **settings)


def grad_cam(
    cam: Any,
    *,
    target_layers: Sequence[str] = (),
    stated: tuple[str, ...] = UNSIGNED,
    **settings: Any,
) -> GradCamMethod:
    """A pytorch-grad-cam class, such as `pytorch_grad_cam.GradCAM`, as a method.

    Args:
        cam: the class.
        target_layers: names of layers, as in `model.named_modules()`; by default the last one with spatial positions.
        stated: the traits of the maps: class-specific, complete, deterministic, implementation-invariant, signed.
        settings: keyword arguments of the call, such as aug_smooth.
    """
    return GradCamMethod(
        cam=name_of(cam, "grad_cam"),
        target_layers=tuple(target_layers),
        settings=settings_text(settings, "grad_cam"),
        stated=stated,
    )
