"""onnx2torch:FILE: an ONNX model converted to torch, for methods that need gradients or layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from snellen.errors import SnellenError, first_line
from snellen.zoo.sources.onnx import OnnxModel, read_onnx
from snellen.zoo.sources.source import LoadedModel, ModelRequest, graph_geometry, import_library, source

NEWEST = 17
"""The newest set of operators that onnx2torch converts whole."""

ALIKE = 1e-3
"""Largest difference from the outputs of onnxruntime, as a share of the largest output."""


@source(
    "onnx2torch",
    spec="onnx2torch:FILE",
    what="an ONNX file converted to torch: gradients and layers, where its operators convert",
    needs="snellen[onnx2torch]",
    executes_code=False,
    libraries=("onnx", "onnxruntime", "onnx2torch"),
)
def converted(request: ModelRequest) -> LoadedModel:
    """A module from an ONNX file; its outputs are compared with those of onnxruntime, and refused where they differ."""
    spec, path = request.spec, Path(request.name).expanduser()
    onnx2torch = import_library("onnx2torch", spec)  # first, because its extra installs the other packages too
    saved = read_onnx(path, spec)
    original = OnnxModel(saved, spec)
    black_box = f"name it onnx:{request.name}, a black box, or give the model that it was exported from"
    if original.rows is not None or original.channels_last or original.input.type != "tensor(float)":
        what = "a dynamic batch axis, the channels before height and width, and float32 values"
        raise SnellenError(f"'{spec}' cannot be converted: that needs {what}; {black_box}")
    try:
        module = onnx2torch.convert(_prepared(import_library("onnx", spec), saved)).eval()
    except Exception as problem:
        raise SnellenError(f"'{spec}' cannot be converted by onnx2torch ({first_line(problem)}); {black_box}") from problem
    geometry, channels = graph_geometry(original.size), original.channels or 3
    _compare(module, original, (channels, *(geometry.size or (224, 224))), f"; {black_box}")
    return LoadedModel(model=module, name=path.name, geometry=geometry, channels=channels)


def _prepared(onnx: Any, saved: bytes) -> Any:
    """The graph without what onnx2torch does not take: weights under a second name, and newer operators."""
    model = onnx.load_from_string(saved)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in [node for node in model.graph.node if node.op_type == "Identity" and node.input[0] in weights]:
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(weights[node.input[0]])
        tensor.name = node.output[0]
        model.graph.node.remove(node)
    newest = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return onnx.version_converter.convert_version(model, NEWEST) if newest > NEWEST else model


def _compare(module: nn.Module, original: OnnxModel, shape: tuple[int, ...], remedy: str) -> None:
    """Refuses a conversion whose outputs differ from those of onnxruntime."""
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    try:
        with torch.no_grad():
            for count in (1, 3):
                expected, outputs = original(images[:count]), module(images[:count])
                difference = float((outputs - expected).abs().max() / expected.abs().max().clamp_min(1e-6))
                if outputs.shape != expected.shape or not difference <= ALIKE:
                    raise SnellenError(f"'{original.spec}' gives other outputs after the conversion{remedy}")
    except SnellenError:
        raise
    except Exception as problem:
        raise SnellenError(
            f"'{original.spec}' does not run after the conversion ({first_line(problem)}){remedy}"
        ) from problem
