"""Batches: the number of rows per pass, and regrouping of rows into full passes."""

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
"""Bytes of the largest activation in a forward pass; larger batches do not fit the processor's caches and gain nothing."""

RESUME_BUDGET = 16 << 20
"""Bytes of the layer's activations in one resumed pass; more do not fit the processor's caches."""

GRADIENT_BUDGET = 768 << 20
"""Bytes of all activations in a pass with gradients."""


def rows(network: Network, inputs: Float[Tensor, "batch channels height width"]) -> tuple[int, int]:
    """Rows per pass without and with gradients, as powers of two, from the size of one row's activations."""
    if "layer" not in network.offers:
        return 16, 16
    with torch.inference_mode():
        largest, total = probes.activation_bytes(network.module, lambda: network(inputs[:1]))
    image = inputs[0].numel() * inputs.element_size()
    return _power_of_two(FORWARD_BUDGET // max(largest, image)), _power_of_two(GRADIENT_BUDGET // (total + image))


def resume_rows(features: int, rows: int, columns: int) -> int:
    """Rows per pass that is resumed from a layer of this shape."""
    return _power_of_two(RESUME_BUDGET // (4 * features * rows * columns))


def attention_rows(layout: AttentionLayout, element_size: int, *, gradients: bool = False) -> int:
    """Rows per pass whose attention weights fit into the budget; with gradients the weights of all layers are in memory."""
    budget, layers = (GRADIENT_BUDGET, layout.layers) if gradients else (FORWARD_BUDGET, 1)
    return _power_of_two(budget // (4 * layers * layout.heads * len(layout.readers) ** 2 * element_size))


def regrouped(blocks: Iterable[Block], rows_for: Callable[[Tensor], int]) -> Iterator[Block]:
    """The same rows in blocks that fill one pass each; `rows_for(inputs)` is the number of rows of a pass."""
    waiting_inputs: list[Tensor] = []
    waiting_targets: list[Tensor] = []
    waiting = 0
    full = 0

    def take(count: int) -> Block:
        nonlocal waiting
        inputs = waiting_inputs[0] if len(waiting_inputs) == 1 else torch.cat(waiting_inputs)
        targets = waiting_targets[0] if len(waiting_targets) == 1 else torch.cat(waiting_targets)
        waiting -= count
        waiting_inputs[:] = [inputs[count:]] if waiting else []
        waiting_targets[:] = [targets[count:]] if waiting else []
        return inputs[:count], targets[:count]

    for inputs, targets in blocks:
        full = full or rows_for(inputs)
        waiting_inputs.append(inputs)
        waiting_targets.append(targets)
        waiting += len(inputs)
        while waiting >= full:
            yield take(full)
    if waiting:
        yield take(waiting)


def _power_of_two(rows: int) -> int:
    return 1 << (min(512, max(1, rows)).bit_length() - 1)
