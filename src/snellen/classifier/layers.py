"""Anatomy: what is inside a network, found by looking at one pass of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import attention, engines, resume, tokens
from snellen.classifier.network import Network
from snellen.classifier.operations import Operation, intercepting
from snellen.errors import SnellenError, nearest

Images = Float[Tensor, "batch channels height width"]


class Anatomy:
    """What looks at a network have shown, each made once per size of image; no look is part of any account."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._operations: dict[tuple[Any, ...], tuple[Operation, ...]] = {}
        self._surveys: dict[tuple[int, ...], tokens.Survey] = {}
        self._attending: dict[tuple[int, ...], attention.Attending | str] = {}
        self._shapes: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        self._tails: dict[tuple[Any, ...], resume.Tail | None] = {}

    def operations(self, inputs: Images, after: str | None) -> tuple[Operation, ...]:
        """Every tensor operation of one pass, in order; `after` names a layer and leaves out what comes before its end."""
        key = (after, *inputs.shape[1:])
        if key not in self._operations:
            seen: list[Operation] = []

            def note(operation: Operation) -> Any:
                seen.append(operation.noted())
                return operation.run()

            module = self.network.module
            layer = module if after is None else module.get_submodule(after)
            handle = layer.register_forward_hook(lambda *_: seen.clear() if after is not None else None)
            try:
                with torch.inference_mode(), intercepting(module, note):
                    self.network(inputs[:1])
            finally:
                handle.remove()
            self._operations[key] = tuple(seen)
        return self._operations[key]

    def ends_in_sigmoid(self, inputs: Images) -> bool:
        """Whether the last operation that computes something is a sigmoid."""
        computing = [one for one in self.operations(inputs, None) if one.kind not in ("shape", "identity")]
        return bool(computing) and computing[-1].name in ("sigmoid", "special_expit")

    def survey(self, inputs: Images) -> tokens.Survey:
        """Which layers put out a grid of features, and in which order of axes."""
        size = tuple(inputs.shape[1:])
        if size not in self._surveys:
            pair = inputs[:1].expand(2, *size)
            with torch.inference_mode():
                self._surveys[size] = tokens.survey(self.network.module, lambda: self.network(pair), 2, (size[1], size[2]))
        return self._surveys[size]

    def feature_layer(self, inputs: Images) -> str:
        """The last layer that still has places, or what enters the last attention."""
        layer = self.survey(inputs).feature_layer()
        if layer is None:
            raise SnellenError(f"no layer of '{self.network.name}' puts out a grid of features; name one with layer=")
        return layer

    def attending(self, inputs: Images, who: str) -> attention.Attending:
        """Between which tokens the network attends, and which of them its head reads; refused in the name of `who` asks."""
        size = tuple(inputs.shape[1:])
        if size not in self._attending:
            noted = attention.Attentions(gradients=True)
            with torch.enable_grad(), intercepting(self.network.module, noted):
                logits = self.network(inputs[:1].expand(2, *size))
            gradient = None
            if logits.requires_grad:
                uneven = torch.linspace(1, 2, logits.shape[1]).to(logits)  # a plain sum may cancel
                (gradient,) = torch.autograd.grad((logits * uneven).sum(), noted.weights[-1])
            self._attending[size] = attention.attending(noted, gradient, 2, self.survey(inputs))
        found = self._attending[size]
        if isinstance(found, str):
            raise SnellenError(
                f"{who} follows attention between all tokens, but '{self.network.name}' {found}; use grad-cam"
            )
        return found

    def shape(self, inputs: Images, layer: str) -> tuple[int, int, int]:
        """Features, rows and columns of a layer."""
        key = (layer, *inputs.shape[1:])
        if key not in self._shapes:
            with torch.inference_mode(), self.recording(layer, inputs) as seen:
                self.network(inputs[:1])
            features, rows, columns = seen[0].shape[1:]
            self._shapes[key] = (features, rows, columns)
        return self._shapes[key]

    @contextlib.contextmanager
    def recording(self, layer: str, inputs: Images, *, leaf: bool = False) -> Iterator[list[Tensor]]:
        """Collects what the named layer puts out while the body runs; `leaf` makes that the start of the graph.

        What is collected is a feature map (batch, features, rows, columns), also where the layer puts out tokens or has its
        channels last; `inputs` are images of the size that will go through.
        """
        name, modules = self.network.name, dict(self.network.module.named_modules())
        if layer not in modules:
            raise SnellenError(f"'{name}' has no layer '{layer}'{nearest(layer, modules)}")
        layout = self.survey(inputs).layout(layer)
        if layout is None:
            raise SnellenError(f"layer '{layer}' of '{name}' does not put out a feature map; name another layer")
        seen: list[Tensor] = []

        def keep(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
            if seen:
                raise SnellenError(f"layer '{layer}' of '{name}' runs more than once in a pass; name another layer")
            # An in-place operation may follow, so the model goes on from a copy, or the copy is kept.
            features = layout.to_map(output)
            seen.append(features.detach().requires_grad_() if leaf else features.clone())
            return layout.put_back(seen[0], output) if leaf else None

        handle = modules[layer].register_forward_hook(keep)
        try:
            yield seen
        finally:
            handle.remove()

    def tail(
        self, inputs: Images, layer: str
    ) -> Callable[[Float[Tensor, "rows features down across"]], Float[Tensor, "rows classes"]] | None:
        """The rest of the network behind a layer; None where something there also reads what came before the layer."""
        self.shape(inputs, layer)
        layout = self.survey(inputs).layout(layer)
        key = (layer, *inputs.shape[1:])
        if key not in self._tails:
            # A token without a place is not part of a feature map, so it would have to come from before.
            alone = layout is not None and not (layout.order == "tokens" and layout.prefix)
            module = self.network.module.get_submodule(layer)
            self._tails[key] = resume.tail_of(module, self.network, inputs[:1]) if alone else None
        tail = self._tails[key]
        if tail is None or layout is None:
            return None

        def run(activations: Tensor) -> Tensor:
            placed = self.network.convention.lay_out(activations.to(self.network.device))
            if layout.order != "channels-first":
                placed = layout.put_back(placed, placed.new_empty(len(placed), 0, placed.shape[1]))
            with engines.arithmetic(self.network.precision, self.network.device):
                return tail(placed).to(activations.device)

        return run

    def replaced(
        self, inputs: Images, layer: str, activations: Float[Tensor, "batch features down across"]
    ) -> Float[Tensor, "batch classes"]:
        """The logits of the whole network, had the layer put out these activations; works behind any layer with places."""
        layout = self.survey(inputs).layout(layer)
        assert layout is not None, "a layer without places was refused before"
        placed = self.network.convention.lay_out(activations.to(self.network.device))
        return resume.run_replaced(
            self.network.module.get_submodule(layer),
            lambda output: layout.put_back(placed, output),
            lambda: self.network(inputs),
        )
