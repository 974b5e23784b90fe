"""package.module:function: code of the user's own, a black box too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError, no_exit
from snellen.plugins.named_code import code_origin, find_object, reason
from snellen.zoo.sources.source import LoadedModel, ModelRequest, source


@source(
    "function",
    spec="package.module:function",
    what="your function without arguments that returns a model or a black box",
    accepts=lambda spec: bool(spec.partition(":")[2]),
    origin=code_origin,
)
def from_function(request: ModelRequest) -> LoadedModel | Classifier:
    """What the function returns: a model, a black-box function or a whole classifier."""
    spec = request.spec
    target = find_object(spec)
    if callable(target) and not isinstance(target, nn.Module):
        try:
            with no_exit(f"'{spec}'"):
                target = target()
        except Exception as problem:
            raise SnellenError(f"'{spec}': calling it without arguments failed ({reason(problem)})") from problem
    if isinstance(target, Classifier):
        return target
    if isinstance(target, Tensor | str | dict | list | tuple) or not (
        callable(target) or isinstance(target, torch.export.ExportedProgram)
    ):
        kind = type(target).__name__
        raise SnellenError(
            f"'{spec}' returned a {kind}; it must return an nn.Module, a Classifier or a function from inputs to logits"
        )
    return LoadedModel(model=target, name=spec)
