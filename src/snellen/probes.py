"""One look into a model: how much memory a pass takes, whether its outputs are logits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from snellen.errors import SnellenError


def activation_bytes(module: nn.Module, run: Callable[[], Any]) -> tuple[int, int]:
    """The bytes of the largest layer's output, and of all layers' outputs together."""
    sizes = [0]

    def note(layer: nn.Module, output: Any) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel() * output.element_size())

    with _watching([one for one in module.modules() if not list(one.children())], note):
        run()
    return max(sizes), sum(sizes)


def called(module: nn.Module, run: Callable[[], Any]) -> tuple[str, ...]:
    """The names of all layers in the order in which a pass enters them.

    A layer that is never entered, because the one around it reads its weights directly, follows the one around it.
    """
    places: dict[str, tuple[int, ...]] = {}
    names = {name: place for place, (name, _) in enumerate(module.named_modules())}

    def note(name: str, *_: Any) -> None:
        places.setdefault(name, (len(places), 0))

    handles = [one.register_forward_pre_hook(functools.partial(note, name)) for name, one in module.named_modules()]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    for name, place in names.items():
        if name not in places:
            around = name.rpartition(".")[0]
            places[name] = (places.get(around, (-1,))[0], place)
    return tuple(sorted(names, key=places.__getitem__))


def check_outputs(raw: Tensor, images: int, name: str, outputs: str) -> int:
    """The number of classes; a sentence when the outputs are not one row of logits (or of probabilities) per image."""
    if raw.dim() != 2 or len(raw) != images:
        shape = "×".join(map(str, raw.shape))
        raise SnellenError(f"'{name}' returned {shape} for {images} images; it must return one row of logits per image")
    if raw.shape[1] < 2:
        raise SnellenError(f"'{name}' has a single output; return one logit per class, such as torch.cat([-z, z], 1)")
    if not bool(raw.isfinite().all()):
        raise SnellenError(f"'{name}' returned NaN or infinite outputs; check its weights and its normalisation")
    sums_to_one = bool((raw >= 0).all() & ((raw.sum(dim=1) - 1).abs() < 1e-3).all())
    if outputs == "logits" and sums_to_one:
        raise SnellenError(
            f"'{name}' returns probabilities (each row sums to 1), not logits; "
            "leave out its softmax or say outputs='probabilities'"
        )
    if outputs == "probabilities" and not sums_to_one:
        raise SnellenError(f"'{name}' was said to return probabilities, but its rows do not sum to 1")
    return int(raw.shape[1])


@contextmanager
def _watching(layers: list[nn.Module], note: Callable[[nn.Module, Any], None]) -> Iterator[None]:
    """Calls `note(layer, output)` whenever one of the layers finishes, until the body ends."""
    handles = [one.register_forward_hook(lambda layer, args, output: note(layer, output)) for one in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
