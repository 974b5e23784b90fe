"""LayerLayouts: where the image grid is in a layer's output: channels first, channels last, or tokens."""

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
"""Largest number of class, distillation and register tokens before the patches; known models have up to 9."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The grid of features in a layer's output."""

    rows: int
    """Height of the grid."""
    columns: int
    """Width of the grid."""
    order: Literal["channels-first", "channels-last", "tokens"] = "channels-first"
    """Which axes of the output are channels and positions."""
    prefix: int = 0
    """Number of tokens before the patches, such as a class token."""

    def to_map(self, output: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch features rows columns"]:
        """The layer's output as a feature map, without prefix tokens."""
        if self.order == "channels-first":
            return output
        if self.order == "channels-last":
            return output.movedim(-1, 1)
        patches = output[:, self.prefix :].transpose(1, 2)
        return patches.reshape(*patches.shape[:2], self.rows, self.columns)

    def put_back(
        self, features: Float[Tensor, "batch features rows columns"], output: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch ..."]:
        """A feature map in the layer's own order of axes; prefix tokens are taken from `output`."""
        if self.order == "channels-first":
            return features.clone()  # the next operation may work in place
        if self.order == "channels-last":
            return features.movedim(1, -1).clone(memory_format=torch.contiguous_format)
        patches = features.flatten(2).transpose(1, 2)
        return torch.cat([output[:, : self.prefix], patches], dim=1)


@dataclass(frozen=True)
class LayerLayouts:
    """The layouts of all layers of a model."""

    layouts: tuple[tuple[str, Layout | None], ...]
    """Names and layouts in the order in which the layers finish; None for a layer without a grid."""
    attention: str | None
    """The last layer with attention."""
    before_attention: int
    """Number of layers that finish before that attention."""

    def layout(self, layer: str) -> Layout | None:
        """The layout of this layer; None if it has no grid."""
        return next((layout for name, layout in self.layouts if name == layer), None)

    def feature_layer(self) -> str | None:
        """The layer before the last attention, or the last layer with a grid if there is no attention.

        After the last attention of a transformer with a class token, patches no longer reach the output. Attention that is
        followed by convolutions does not count.
        """
        finished = [name for name, _ in self.layouts]
        usable = [layout is not None and finished.count(name) == 1 for name, layout in self.layouts]
        if self.attention is not None:
            inside = f"{self.attention}." if self.attention else ""
            for place in range(self.before_attention - 1, -1, -1):
                name = finished[place]
                if usable[place] and name != self.attention and not (inside and name.startswith(inside)):
                    return name
        return next((finished[place] for place in range(len(usable) - 1, -1, -1) if usable[place]), None)

    def earlier_layers(self, before: str) -> tuple[str, ...]:
        """Two or three layers with a grid that finish before this one, the latest first; fewer if there are not as many.

        They are the last layers of up to three finer scales, each with about twice as many rows as the next. With fewer than
        two such scales, layers at even distances among the others are added.
        """
        own = self.layout(before)
        if own is None:
            return ()
        finished = [name for name, _ in self.layouts]
        place, inner = finished.index(before), before
        # The last part of a layer has the same output as the layer.
        while place and finished[place - 1].startswith(f"{inner}."):
            place, inner = place - 1, finished[place - 1]
        scales: dict[int, list[str]] = {}
        for name, layout in reversed(self.layouts[:place]):
            if layout is None or finished.count(name) > 1:
                continue
            # Other proportions mean that this is no image grid, but for example heads × tokens.
            if _distortion(layout, (own.rows, own.columns)) < 0.25:
                scales.setdefault(round(math.log2(layout.rows / own.rows)), []).append(name)
        outer = {scale: _outermost(names, finished) for scale, names in scales.items() if scale >= 0}
        # Of the last layers of a scale the outermost one: a block rather than a part of it.
        chosen = [min(names, key=lambda name: name.count(".")) for scale, names in outer.items() if scale > 0][:3]
        if len(chosen) < 2:
            left = [name for names in outer.values() for name in names if name not in chosen]
            missing = min(len(left), 2 - len(chosen))
            chosen += [left[(place + 1) * len(left) // (missing + 1)] for place in range(missing)]
        return tuple(sorted(chosen, key=finished.index, reverse=True))


def _outermost(names: list[str], finished: list[str]) -> list[str]:
    """The layers that are not inside another one of them; only those that have parts, if some have."""
    outer = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    return [name for name in outer if any(other.startswith(f"{name}.") for other in finished)] or outer


def find_layer_layouts(module: nn.Module, run: Callable[[], Any], batch: int, size: tuple[int, int]) -> LayerLayouts:
    """The layouts of all layers, from one pass.

    Names and classes of layers do not matter. Shapes with channels first are those of convolutions, shapes with channels
    last those of linear layers and layer normalisations; the grids of both tell how many tokens are patches.

    Args:
        module: the model.
        run: makes the pass.
        batch: number of images in the pass; at least two, so that windows are not taken for images.
        size: height and width of the images.
    """
    first: set[Shape] = set()
    last: set[Shape] = set()
    finished: list[tuple[str, Shape]] = []
    candidates: list[tuple[str, int]] = []
    attentions: list[tuple[str, int]] = []

    def note(operation: Operation) -> Any:
        result = operation.run()
        if isinstance(result, Tensor) and result.dim() == 4 and len(result) == batch:
            if operation.kind in ("convolution", "batch-norm", "max-pool", "mean-pool"):
                first.add(tuple(result.shape[1:]))
            elif operation.kind == "linear" or operation.name in ("layer_norm", "rms_norm"):
                last.add(tuple(result.shape[1:]))
        position = (operation.layer, len(finished))
        if operation.kind == "attention":
            attentions.append(position)
        elif operation.kind == "softmax":
            candidates.append(position)
        elif operation.kind == "product":
            # The softmax may be a layer of its own; attention is the layer that multiplies with its result.
            inside = f"{operation.layer}." if operation.layer else ""
            attentions.extend(
                (operation.layer, place)
                for layer, place in candidates
                if layer == operation.layer or layer.startswith(inside)
            )
            candidates.clear()
        elif operation.kind == "convolution" and max(operation.argument(1, "weight").shape[2:]) > 1:
            attentions.clear()
        return result

    def finish(name: str) -> Callable[..., None]:
        def record(layer: nn.Module, args: Any, output: Any) -> None:
            fits = isinstance(output, Tensor) and output.dim() in (3, 4) and len(output) == batch
            finished.append((name, tuple(output.shape[1:]) if fits else ()))

        return record

    handles = [part.register_forward_hook(finish(name)) for name, part in module.named_modules() if name]
    try:
        with intercepting(module, note):
            run()
    finally:
        for handle in handles:
            handle.remove()
    grids = {shape[1:] for shape in first} | {shape[:2] for shape in last}
    layer, before = attentions[-1] if attentions else (None, 0)
    return LayerLayouts(tuple((name, _read(shape, first, last, grids, size)) for name, shape in finished), layer, before)


def _read(shape: Shape, first: set[Shape], last: set[Shape], grids: set[Shape], size: tuple[int, int]) -> Layout | None:
    """The layout of a layer whose output for one image has this shape; None if it has no grid."""
    if len(shape) == 2:
        return _tokens(shape[0], grids, size)
    if len(shape) != 3:
        return None
    as_first, as_last = Layout(*shape[1:]), Layout(*shape[:2], order="channels-last")
    if (shape in last) == (shape in first):  # seen as both or as neither: take the grid with the image's proportions
        layout = as_last if _distortion(as_last, size) < _distortion(as_first, size) else as_first
    else:
        layout = as_last if shape in last else as_first
    return layout if min(layout.rows, layout.columns) > 1 else None


def _distortion(layout: Layout, size: tuple[int, int]) -> float:
    return abs(math.log((size[0] / layout.rows) / (size[1] / layout.columns)))


def _tokens(count: int, grids: set[Shape], size: tuple[int, int]) -> Layout | None:
    """The grid with the fewest prefix tokens: one that occurs in the pass, or else one of square patches."""
    seen = [(count - rows * columns, rows, columns) for rows, columns in grids if rows > 1 and columns > 1]
    fits = sorted(grid for grid in seen if 0 <= grid[0] <= MOST_PREFIX_TOKENS)
    if fits:
        prefix, rows, columns = fits[0]
        return Layout(rows=rows, columns=columns, order="tokens", prefix=prefix)
    height, width = size
    for prefix in range(6):  # at most a class token and four registers, because this is a guess
        rows = math.isqrt(max(0, count - prefix) * height // width)
        columns = (count - prefix) // max(rows, 1)
        square = rows * columns == count - prefix and rows * width == columns * height
        if rows > 1 and columns > 1 and square and height % rows == 0:
            return Layout(rows=rows, columns=columns, order="tokens", prefix=prefix)
    return None
