"""Files of weights for models whose code is part of a library."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snellen.errors import SnellenError, first_line

PRETRAINED = "pretrained"

LONGEST = 200
"""Most letters of torch's list of tensors that do not fit."""


def read_weights(weights: str | Path | None, spec: str) -> dict[str, Tensor] | None:
    """The tensors of a local weight file; None for no weights or "pretrained"."""
    if weights is None or weights == PRETRAINED:
        return None
    path = Path(weights)
    if not path.is_file():
        raise SnellenError(f"'{spec}': there is no weight file '{path}' (give a local file, or 'pretrained')")
    try:
        if path.suffix == ".safetensors":
            stored: Any = importlib.import_module("safetensors.torch").load_file(path)
        else:
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:
        raise SnellenError(f"'{path}' cannot be read as a file of weights ({first_line(problem)})") from problem
    for key in ("state_dict_ema", "state_dict", "model_ema", "model"):
        if isinstance(stored, Mapping) and isinstance(stored.get(key), Mapping):
            stored = stored[key]
    if not isinstance(stored, Mapping) or not all(isinstance(value, Tensor) for value in stored.values()):
        raise SnellenError(f"'{path}' holds no state dict; save model.state_dict()")
    return {str(key).removeprefix("module."): value for key, value in stored.items()}


def class_count(classes: Sequence[str] | None, stored: Mapping[str, Tensor] | None, head: str) -> int | None:
    """The number of outputs that the model must have; None for its default.

    Args:
        classes: names of the classes that the user gives.
        stored: the tensors of a weight file.
        head: name of the last layer's weights in that file.
    """
    if stored is not None and head in stored:
        return int(stored[head].shape[0])
    return len(classes) if classes is not None and stored is None else None


def fill_weights(model: nn.Module, stored: Mapping[str, Tensor] | None, spec: str, weights: str | Path | None) -> None:
    """Loads stored tensors into a model; a SnellenError says which tensor does not fit.

    Args:
        model: the module, changed in place.
        stored: the tensors by name; None leaves the module as it is.
        spec: how the user named the model, for messages.
        weights: the file of the tensors, for messages.
    """
    if stored is None:
        return
    try:
        model.load_state_dict(stored)
    except RuntimeError as problem:
        lines = [line.strip() for line in str(problem).splitlines()]
        reason = (lines[1] if len(lines) > 1 else lines[0]).rstrip(". ")
        reason = reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 3]}..."
        raise SnellenError(f"the weights in '{weights}' do not fit '{spec}' ({reason})") from None


def full_name(spec: str, weights: str | Path | None) -> str:
    """The name of a model, which says where it is untrained."""
    return f"{spec} (untrained)" if weights is None else spec
