"""Batches: how many rows go through a network at once, and blocks of rows regrouped so that every pass is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import probes
from snellen.classifier.attention import AttentionLayout
from snellen.classifier.network import Network

Block = tuple[Float[Tensor, "batch channels height width"], Int[Tensor, " batch"]]
"""Inputs and their targets."""

FORWARD_BUDGET = 128 << 20
"""Bytes of the largest activation in a forward pass: beyond that a larger batch only leaves the processor's caches."""

TAIL_BUDGET = 16 << 20
"""Bytes of a layer's activations that go through the rest of the model at once; more would only leave the caches."""

GRADIENT_BUDGET = 768 << 20
"""Bytes of activations that a pass with gradients may hold, all layers together."""


def rows(network: Network, inputs: Float[Tensor, "batch channels height width"]) -> tuple[int, int]:
    """Rows per pass without and with gradients, as powers of two, from the bytes that one row's activations take."""
    if "layer" not in network.offers:
        return 16, 16
    with torch.inference_mode():
        largest, total = probes.activation_bytes(network.module, lambda: network(inputs[:1]))
    image = inputs[0].numel() * inputs.element_size()
    return _power_of_two(FORWARD_BUDGET // max(largest, image)), _power_of_two(GRADIENT_BUDGET // (total + image))


def resume_rows(features: int, rows: int, columns: int) -> int:
    """Rows of a layer of this shape that go through what follows it."""
    return _power_of_two(TAIL_BUDGET // (4 * features * rows * columns))


def attention_rows(attending: AttentionLayout, element_size: int, *, gradients: bool = False) -> int:
    """Rows whose attention weights, with what is computed from them, fit into the budget; gradients hold all layers'."""
    budget, kept = (GRADIENT_BUDGET, attending.layers) if gradients else (FORWARD_BUDGET, 1)
    return _power_of_two(budget // (4 * kept * attending.heads * len(attending.readers) ** 2 * element_size))


def regrouped(blocks: Iterable[Block], rows_for: Callable[[Tensor], int]) -> Iterator[Block]:
    """The same rows in blocks that fill one pass each; `rows_for` tells from the first block how many rows that takes."""
    held_inputs: list[Tensor] = []
    held_targets: list[Tensor] = []
    held = 0
    full = 0

    def take(count: int) -> Block:
        nonlocal held
        inputs = held_inputs[0] if len(held_inputs) == 1 else torch.cat(held_inputs)
        targets = held_targets[0] if len(held_targets) == 1 else torch.cat(held_targets)
        held -= count
        held_inputs[:] = [inputs[count:]] if held else []
        held_targets[:] = [targets[count:]] if held else []
        return inputs[:count], targets[:count]

    for inputs, targets in blocks:
        full = full or rows_for(inputs)
        held_inputs.append(inputs)
        held_targets.append(targets)
        held += len(inputs)
        while held >= full:
            yield take(full)
    if held:
        yield take(held)


def _power_of_two(rows: int) -> int:
    return 1 << (min(512, max(1, rows)).bit_length() - 1)
