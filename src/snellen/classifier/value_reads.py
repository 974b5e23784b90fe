"""Whether a model's own code reads values of tensors, so that another image might take another path through it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from snellen.classifier.network import Network
from snellen.classifier.resume import QUERIES, changed_tensors, tensors_in


class _Follower(TorchFunctionMode):
    """Follows what is computed from the images, and lists the functions that make something else than a tensor of it."""

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        self.followed: Any = WeakTensorKeyDictionary()
        self.followed[images] = True
        self.readers: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = list(tensors_in((tuple(args), dict(kwargs or {}))))
        result = func(*args, **(kwargs or {}))
        if any(tensor in self.followed for tensor in arguments):
            results = list(tensors_in(changed_tensors(func, args, result)))
            for tensor in results:
                self.followed[tensor] = True
            name = getattr(func, "__name__", str(func))
            if not results and name not in QUERIES:
                self.readers.append(name)
        return result


def value_reader(network: Network, images: Tensor) -> str | None:
    """The first function by which the model reads a value that depends on the images, such as `item`; None without any."""
    placed = network.place(images.clone())
    follower = _Follower(placed)
    with torch.inference_mode(False), torch.no_grad(), follower:
        network.run(placed)
    return next(iter(follower.readers), None)
