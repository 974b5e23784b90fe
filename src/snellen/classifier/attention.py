"""Attention: the weights between tokens in every attention of a pass, whichever torch function computes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from snellen.classifier.operations import Operation
from snellen.classifier.tokens import LayerLayouts, Layout
from snellen.errors import SnellenError

Weights = Float[Tensor, "batch heads tokens tokens"]
Folding = Callable[[Weights], Float[Tensor, "batch tokens tokens"]]
"""Folds the heads into one."""
Weighing = Callable[[Weights, Weights], Float[Tensor, "batch tokens tokens"]]
"""Combines weights and their gradient, and folds the heads into one."""


class AttentionRecorder:
    """A handler of operations that computes every attention step by step and records its weights.

    Args:
        gradients: start the autograd graph at the first attention, with all recorded weights in it.
        fold: applied to the weights before they are recorded.
    """

    def __init__(self, *, gradients: bool = False, fold: Callable[[Tensor], Tensor] | None = None) -> None:
        self.gradients = gradients
        self.fold = fold
        self.layers: list[str] = []
        self.shapes: list[tuple[int, ...]] = []
        self.weights: list[Tensor] = []

    def __call__(self, operation: Operation) -> Any:
        if operation.name == "scaled_dot_product_attention":
            return self._fused(operation)
        if operation.name == "multi_head_attention_forward":
            return self._packed(operation)
        result = operation.run()
        is_attention = operation.kind == "softmax" and isinstance(result, Tensor) and result.dim() == 4
        return self._record(result, operation.layer) if is_attention else result

    def _record(self, weights: Tensor, layer: str) -> Tensor:
        if self.gradients and not weights.requires_grad:
            weights = weights.detach().requires_grad_()
        self.layers.append(layer)
        self.shapes.append(tuple(weights.shape))
        self.weights.append(weights if self.fold is None else self.fold(weights))
        return weights

    def _fused(self, operation: Operation) -> Tensor:
        query, key, value = (operation.argument(place, name) for place, name in enumerate(("query", "key", "value")))
        mask, scale = operation.argument(3, "attn_mask"), operation.kwargs.get("scale")
        if operation.kwargs.get("enable_gqa", False):
            key, value = (heads.repeat_interleave(query.shape[1] // heads.shape[1], dim=1) for heads in (key, value))
        if operation.argument(5, "is_causal", False):
            mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        scores = query @ key.transpose(-2, -1) * (scale or 1 / math.sqrt(query.shape[-1]))
        mixed: Tensor = self._record(_masked(scores, mask).softmax(dim=-1), operation.layer) @ value
        return mixed

    def _packed(self, operation: Operation) -> tuple[Tensor, Tensor | None]:
        """The computation of `torch.nn.MultiheadAttention`; its first axis is tokens, its second images."""
        arguments = dict(zip(_PACKED, operation.args, strict=False)) | operation.kwargs
        if arguments.get("bias_k") is not None or arguments.get("add_zero_attn") or arguments.get("static_k") is not None:
            raise SnellenError(f"attention with added keys at {operation.layer} is not between tokens; use grad-cam")
        heads, bias = arguments["num_heads"], arguments["in_proj_bias"]
        if arguments.get("use_separate_proj_weight"):
            parts = [arguments[f"{letter}_proj_weight"] for letter in "qkv"]
        else:
            parts = arguments["in_proj_weight"].chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        query, key, value = (
            functional.linear(arguments[name], weight, offset).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
            for name, weight, offset in zip(("query", "key", "value"), parts, biases, strict=True)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        mask, padding = arguments.get("attn_mask"), arguments.get("key_padding_mask")
        if mask is not None:
            mask = mask.unflatten(0, (-1, heads)) if mask.dim() == 3 else mask  # images and heads share an axis
            # In this function True hides a token; in scaled_dot_product_attention it shows one.
            scores = _masked(scores, ~mask if mask.dtype == torch.bool else mask)
        if padding is not None:
            padding = padding[:, None, None]
            scores = _masked(scores, ~padding if padding.dtype == torch.bool else padding)
        weights = self._record(scores.softmax(dim=-1), operation.layer)
        mixed = (weights @ value).permute(2, 0, 1, 3).flatten(2)
        out = functional.linear(mixed, arguments["out_proj_weight"], arguments["out_proj_bias"])
        if not arguments.get("need_weights", True):
            return out, None
        return out, weights.mean(dim=1) if arguments.get("average_attn_weights", True) else weights


_PACKED = (
    "query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias", "bias_k", "bias_v",
    "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias", "training", "key_padding_mask", "need_weights",
    "attn_mask", "use_separate_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "static_k", "static_v",
    "average_attn_weights", "is_causal",
)  # fmt: skip


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores
    return scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask


@dataclass(frozen=True, eq=False)
class AttentionLayout:
    """The tokens that the attentions of a model connect."""

    layers: int
    """Number of attentions in a pass."""
    heads: int
    """Number of attention heads."""
    layout: Layout
    """Which tokens are image patches, and their grid."""
    readers: Bool[Tensor, " tokens"]
    """The tokens that the model's head reads, such as the class token."""

    def read(self, flow: Float[Tensor, "batch tokens tokens"]) -> Float[Tensor, "batch 1 rows columns"]:
        """The flow from each patch, averaged over the tokens that the head reads, as a map."""
        return self.layout.to_map(flow[:, self.readers.to(flow.device)].mean(dim=1).unsqueeze(2))


def find_attention_layout(
    recorder: AttentionRecorder, gradient: Tensor | None, images: int, layouts: LayerLayouts
) -> AttentionLayout | str:
    """The layout of the recorded attentions, or a phrase that says why they cannot be followed.

    Args:
        recorder: holds the attentions of one pass.
        gradient: gradient of the outputs at the last attention weights; 0 in the row of a token that the head does not read.
        images: number of images in that pass.
        layouts: layouts of the layers.
    """
    if not recorder.layers:
        return "has no attention"
    for layer, shape in zip(recorder.layers, recorder.shapes, strict=True):
        if shape[0] != images:
            return f"attends within windows at {layer}"
        if shape[2] != shape[3] or shape != recorder.shapes[0]:
            return f"attends between other tokens at {layer}"
    if gradient is None:
        return "gives no gradient at its attention"
    _, heads, tokens, _ = recorder.shapes[0]
    grids = [grid for _, grid in layouts.layouts if grid is not None and grid.order == "tokens"]
    layout = next((grid for grid in grids if grid.prefix + grid.rows * grid.columns == tokens), None)
    if layout is None:
        return f"attends between {tokens} tokens at {recorder.layers[0]}, which form no grid"
    readers = gradient.abs().amax(dim=(0, 1, 3)) > 0
    if not readers.any():  # a head whose weights are all zero reads nothing
        readers = torch.arange(tokens, device=readers.device) < (1 if layout.prefix else tokens)
    return AttentionLayout(layers=len(recorder.layers), heads=heads, layout=layout, readers=readers)
