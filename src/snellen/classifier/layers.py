"""NetworkStructure: the operations, layers and attention of a network, found in uncounted passes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import arithmetic, attention, resume, tokens
from snellen.classifier.cache import Cache
from snellen.classifier.network import Network
from snellen.classifier.operations import Operation, intercepting
from snellen.errors import SnellenError, nearest
from snellen.types import Images


class NetworkStructure:
    """Structure of a network, found once per image size; no pass made here is counted in a ledger.

    Functions that only examine the network use `inputs` as an example of the image size, and of them the first image only.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._cache = Cache()

    def operations(self, inputs: Images, after: str | None) -> tuple[Operation, ...]:
        """All tensor operations of a pass in order, or only those after the layer named `after`."""

        def record() -> tuple[Operation, ...]:
            operations: list[Operation] = []

            def note(operation: Operation) -> Any:
                operations.append(operation.without_arguments())
                return operation.run()

            module = self.network.module
            layer = module if after is None else module.get_submodule(after)
            handle = layer.register_forward_hook(lambda *_: operations.clear() if after is not None else None)
            try:
                with torch.inference_mode(), intercepting(module, note):
                    self.network(inputs[:1])
            finally:
                handle.remove()
            return tuple(operations)

        return self._cache.get_or_compute(("operations", after, *inputs.shape[1:]), record)

    def ends_in_sigmoid(self, inputs: Images) -> bool:
        """Whether the last operation that computes something is a sigmoid."""
        computing = [step for step in self.operations(inputs, None) if step.kind not in ("shape", "identity")]
        return bool(computing) and computing[-1].name in ("sigmoid", "special_expit")

    def layer_layouts(self, inputs: Images) -> tokens.LayerLayouts:
        """Which layers output a grid of features, and in which order of axes."""
        size = tuple(inputs.shape[1:])

        def find() -> tokens.LayerLayouts:
            pair = inputs[:1].expand(2, *size)
            with torch.inference_mode():
                return tokens.find_layer_layouts(self.network.module, lambda: self.network(pair), 2, (size[1], size[2]))

        return self._cache.get_or_compute(("layouts", *size), find)

    def feature_layer(self, inputs: Images) -> str:
        """The last layer that outputs a grid, or else the one before the last attention."""
        layer = self.layer_layouts(inputs).feature_layer()
        if layer is None:
            raise SnellenError(f"no layer of '{self.network.name}' outputs a grid of features; name one with layer=")
        return layer

    def attention_layout(self, inputs: Images, method: str) -> attention.AttentionLayout:
        """Which tokens the attention connects and the head reads; other kinds of attention are refused for `method`."""
        size = tuple(inputs.shape[1:])

        def find() -> attention.AttentionLayout | str:
            recorder = attention.AttentionRecorder(gradients=True)
            with torch.enable_grad(), intercepting(self.network.module, recorder):
                logits = self.network(inputs[:1].expand(2, *size))
            gradient = None
            if logits.requires_grad:
                uneven = torch.linspace(1, 2, logits.shape[1]).to(logits)  # a plain sum may cancel
                (gradient,) = torch.autograd.grad((logits * uneven).sum(), recorder.weights[-1], allow_unused=True)
            return attention.find_attention_layout(recorder, gradient, 2, self.layer_layouts(inputs))

        layout = self._cache.get_or_compute(("attention", *size), find)
        if isinstance(layout, str):
            raise SnellenError(
                f"{method} follows attention between all tokens, but '{self.network.name}' {layout}; use grad-cam"
            )
        return layout

    def layer_shape(self, inputs: Images, layer: str) -> tuple[int, int, int]:
        """Features, rows and columns of a layer."""

        def find() -> tuple[int, int, int]:
            with torch.inference_mode(), self.recording(layer, inputs) as maps:
                self.network(inputs[:1])
            features, rows, columns = maps[0].shape[1:]
            return features, rows, columns

        return self._cache.get_or_compute(("shape", layer, *inputs.shape[1:]), find)

    @contextlib.contextmanager
    def recording(self, layer: str, inputs: Images, *, leaf: bool = False) -> Iterator[list[Tensor]]:
        """Collects the feature map that the named layer outputs while the body runs.

        It has the shape (batch, features, rows, columns), also where the layer outputs tokens or has its channels last.

        Args:
            layer: name of the layer.
            inputs: images of the size that goes through the network in the body.
            leaf: make the feature map a leaf of the autograd graph, so that a backward pass ends there.
        """
        name, modules = self.network.name, dict(self.network.module.named_modules())
        if layer not in modules:
            raise SnellenError(f"'{name}' has no layer '{layer}'{nearest(layer, modules)}")
        layout = self.layer_layouts(inputs).layout(layer)
        if layout is None:
            raise SnellenError(f"layer '{layer}' of '{name}' does not output a feature map; name another layer")
        maps: list[Tensor] = []

        def collect(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
            if maps:
                raise SnellenError(f"layer '{layer}' of '{name}' runs more than once in a pass; name another layer")
            # An in-place operation may follow, so the model goes on from a copy, or a copy is collected.
            features = layout.to_map(output)
            maps.append(features.detach().requires_grad_() if leaf else features.clone())
            return layout.put_back(maps[0], output) if leaf else None

        handle = modules[layer].register_forward_hook(collect)
        try:
            yield maps
        finally:
            handle.remove()

    def layer_to_logits(
        self, inputs: Images, layer: str
    ) -> Callable[[Float[Tensor, "rows features down across"]], Float[Tensor, "rows classes"]] | None:
        """The part of the network after a layer; None if an operation there also reads values from before the layer."""
        self.layer_shape(inputs, layer)
        layout = self.layer_layouts(inputs).layout(layer)

        def trace() -> resume.LayerToLogits | None:
            # A class token is not part of the feature map, so its value would have to come from before the layer.
            map_is_whole_output = layout is not None and not (layout.order == "tokens" and layout.prefix)
            module = self.network.module.get_submodule(layer)
            return resume.trace_layer_to_logits(module, self.network, inputs[:1]) if map_is_whole_output else None

        rest = self._cache.get_or_compute(("rest", layer, *inputs.shape[1:]), trace)
        if rest is None or layout is None:
            return None

        def run(activations: Tensor) -> Tensor:
            placed = self.network.convention.lay_out(activations.to(self.network.device))
            if layout.order != "channels-first":
                placed = layout.put_back(placed, placed.new_empty(len(placed), 0, placed.shape[1]))
            with arithmetic.in_precision(self.network.precision, self.network.device):
                return rest(placed).to(activations.device)

        return run

    def logits_with_layer(
        self, inputs: Images, layer: str, activations: Float[Tensor, "batch features down across"]
    ) -> Float[Tensor, "batch classes"]:
        """Logits of the whole network, with the output of a layer replaced by these activations."""
        layout = self.layer_layouts(inputs).layout(layer)
        assert layout is not None, "layers without a grid were refused before"
        placed = self.network.convention.lay_out(activations.to(self.network.device))
        return resume.run_replaced(
            self.network.module.get_submodule(layer),
            lambda output: layout.put_back(placed, output),
            lambda: self.network(inputs),
        )
