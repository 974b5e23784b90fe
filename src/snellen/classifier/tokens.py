"""Where the places are in what a layer puts out: channels first, channels last, or a row of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier.operations import Operation, intercepting

MOST_PREFIX_TOKENS = 16
"""Class, distillation and register tokens that may stand before the patches; the largest number in use is 9."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """How a layer's output holds a grid: `prefix` tokens that have no place stand before the patches, row by row."""

    rows: int
    columns: int
    order: Literal["channels-first", "channels-last", "tokens"] = "channels-first"
    prefix: int = 0

    def to_map(self, output: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch features rows columns"]:
        """The layer's output as a feature map, without the tokens that have no place."""
        if self.order == "channels-first":
            return output
        if self.order == "channels-last":
            return output.movedim(-1, 1)
        patches = output[:, self.prefix :].transpose(1, 2)
        return patches.reshape(*patches.shape[:2], self.rows, self.columns)

    def put_back(
        self, features: Float[Tensor, "batch features rows columns"], output: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch ..."]:
        """A feature map in the layer's own order; tokens that have no place come from what the layer put out."""
        if self.order == "channels-first":
            return features.clone()  # what follows may work in place
        if self.order == "channels-last":
            return features.movedim(1, -1).clone(memory_format=torch.contiguous_format)
        patches = features.flatten(2).transpose(1, 2)
        return torch.cat([output[:, : self.prefix], patches], dim=1)


@dataclass(frozen=True)
class LayerLayouts:
    """What one pass showed: which layers hold a grid and how, in the order in which they finished."""

    layouts: tuple[tuple[str, Layout | None], ...]
    attention: str | None
    before_attention: int

    def layout(self, layer: str) -> Layout | None:
        """How this layer holds a grid; None when it holds none."""
        return next((layout for name, layout in self.layouts if name == layer), None)

    def feature_layer(self) -> str | None:
        """What enters the last attention, or else the last layer that holds a grid.

        Behind the last attention of a transformer that reads a class token, patches no longer reach the output. Where
        convolutions follow the attention, it is not the last to mix places.
        """
        finished = [name for name, _ in self.layouts]
        fit = [layout is not None and finished.count(name) == 1 for name, layout in self.layouts]
        if self.attention is not None:
            inside = f"{self.attention}." if self.attention else ""
            for place in range(self.before_attention - 1, -1, -1):
                name = finished[place]
                if fit[place] and name != self.attention and not (inside and name.startswith(inside)):
                    return name
        return next((finished[place] for place in range(len(fit) - 1, -1, -1) if fit[place]), None)

    def earlier_layers(self, before: str) -> tuple[str, ...]:
        """Two or three layers with places that finish before this one, where there are as many, the latest first.

        The end of each finer scale, about twice as many rows each; where there is only one such scale, or none, also
        layers from the middle of what is left.
        """
        own = self.layout(before)
        if own is None:
            return ()
        finished = [name for name, _ in self.layouts]
        place, inner = finished.index(before), before
        while place and finished[place - 1].startswith(f"{inner}."):  # the end of a layer puts out what the layer does
            place, inner = place - 1, finished[place - 1]
        scales: dict[int, list[str]] = {}
        for name, layout in reversed(self.layouts[:place]):
            if layout is None or finished.count(name) > 1:
                continue
            if _distortion(layout, (own.rows, own.columns)) < 0.25:  # else it is something like heads × tokens
                scales.setdefault(round(math.log2(layout.rows / own.rows)), []).append(name)
        outer = {scale: _outermost(names, finished) for scale, names in scales.items() if scale >= 0}
        # Of the end of a scale, what is farthest out: a block rather than the beginning of the next.
        chosen = [min(names, key=lambda one: one.count(".")) for scale, names in outer.items() if scale > 0][:3]
        if len(chosen) < 2:
            left = [name for names in outer.values() for name in names if name not in chosen]
            wanted = min(len(left), 2 - len(chosen))
            chosen += [left[(index + 1) * len(left) // (wanted + 1)] for index in range(wanted)]
        return tuple(sorted(chosen, key=finished.index, reverse=True))


def _outermost(names: list[str], finished: list[str]) -> list[str]:
    """Of these layers those that lie in no other of them, and only those with parts where some have any."""
    outer = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    return [one for one in outer if any(other.startswith(f"{one}.") for other in finished)] or outer


def find_layer_layouts(module: nn.Module, run: Callable[[], Any], batch: int, size: tuple[int, int]) -> LayerLayouts:
    """Watches one pass of `batch` images (at least two, so that windows are not taken for images) of this height and width.

    No layer is known by its name or class. Convolutions show which shapes have channels first, linear maps and layer
    normalisation which have them last; the grids of both say how many tokens are patches.
    """
    first: set[Shape] = set()
    last: set[Shape] = set()
    finished: list[tuple[str, Shape]] = []
    candidates: list[tuple[str, int]] = []
    found: list[tuple[str, int]] = []

    def note(operation: Operation) -> Any:
        result = operation.run()
        if isinstance(result, Tensor) and result.dim() == 4 and len(result) == batch:
            if operation.kind in ("convolution", "batch-norm", "max-pool", "mean-pool"):
                first.add(tuple(result.shape[1:]))
            elif operation.kind == "linear" or operation.name in ("layer_norm", "rms_norm"):
                last.add(tuple(result.shape[1:]))
        here = (operation.layer, len(finished))
        if operation.kind == "attention":
            found.append(here)
        elif operation.kind == "softmax":
            candidates.append(here)
        elif operation.kind == "product":
            # The softmax may be a layer of its own; the one that multiplies with its result is the one that attends.
            inside = f"{operation.layer}." if operation.layer else ""
            found.extend(
                (operation.layer, place)
                for layer, place in candidates
                if layer == operation.layer or layer.startswith(inside)
            )
            candidates.clear()
        elif operation.kind == "convolution" and max(operation.argument(1, "weight").shape[2:]) > 1:
            found.clear()
        return result

    def finish(name: str) -> Callable[..., None]:
        def keep(layer: nn.Module, args: Any, output: Any) -> None:
            fits = isinstance(output, Tensor) and output.dim() in (3, 4) and len(output) == batch
            finished.append((name, tuple(output.shape[1:]) if fits else ()))

        return keep

    handles = [one.register_forward_hook(finish(name)) for name, one in module.named_modules() if name]
    try:
        with intercepting(module, note):
            run()
    finally:
        for handle in handles:
            handle.remove()
    grids = {shape[1:] for shape in first} | {shape[:2] for shape in last}
    layer, before = found[-1] if found else (None, 0)
    return LayerLayouts(tuple((name, _read(shape, first, last, grids, size)) for name, shape in finished), layer, before)


def _read(shape: Shape, first: set[Shape], last: set[Shape], grids: set[Shape], size: tuple[int, int]) -> Layout | None:
    """The layout of one image's output of this shape."""
    if len(shape) == 2:
        return _tokens(shape[0], grids, size)
    if len(shape) != 3:
        return None
    as_first, as_last = Layout(*shape[1:]), Layout(*shape[:2], order="channels-last")
    if (shape in last) == (shape in first):  # both or neither was seen: the grid that has the image's proportions
        found = as_last if _distortion(as_last, size) < _distortion(as_first, size) else as_first
    else:
        found = as_last if shape in last else as_first
    return found if min(found.rows, found.columns) > 1 else None


def _distortion(layout: Layout, size: tuple[int, int]) -> float:
    return abs(math.log((size[0] / layout.rows) / (size[1] / layout.columns)))


def _tokens(count: int, grids: set[Shape], size: tuple[int, int]) -> Layout | None:
    """The grid that leaves the fewest tokens over: one that the pass showed, or else one of square patches."""
    seen = [(count - rows * columns, rows, columns) for rows, columns in grids if rows > 1 and columns > 1]
    fits = sorted(one for one in seen if 0 <= one[0] <= MOST_PREFIX_TOKENS)
    if fits:
        prefix, rows, columns = fits[0]
        return Layout(rows, columns, "tokens", prefix)
    height, width = size
    for prefix in range(6):  # a guess must be careful: a class token and four registers
        rows = math.isqrt(max(0, count - prefix) * height // width)
        columns = (count - prefix) // max(rows, 1)
        square = rows * columns == count - prefix and rows * width == columns * height
        if rows > 1 and columns > 1 and square and height % rows == 0:
            return Layout(rows, columns, "tokens", prefix)
    return None
