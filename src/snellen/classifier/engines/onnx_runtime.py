"""The engine `onnxruntime`: the module's graph, exported to ONNX and run by onnxruntime on the processor."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier.engines.engine import Engine
from snellen.classifier.network import Network

PACKAGES = ("onnx", "onnxruntime")
"""Torch needs the first to export a graph, the second runs it."""


def missing_packages() -> list[str]:
    """The needed packages that are not installed."""
    return [package for package in PACKAGES if importlib.util.find_spec(package) is None]


class OnnxRuntime(Engine):
    """A module's forward pass as an ONNX graph.

    The constructor raises whatever the exporter or onnxruntime raises.

    Args:
        network: the network.
        example: a pass that the graph is recorded from.
        any_rows: the graph takes any number of rows; else as many as the example has.
    """

    name = "onnxruntime"

    def __init__(self, network: Network, example: Tensor, *, any_rows: bool) -> None:
        super().__init__(network, tuple(example.shape[1:]), None if any_rows else len(example))
        self.saved = export(network, example, any_rows=any_rows)
        self._open()

    def _open(self) -> None:
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        self._threads = options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        # Threads that wait for work by spinning would take the processor from torch's.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # only what ends the process; everything else is raised
        runtime.disable_telemetry_events()
        self._session = runtime.InferenceSession(self.saved, options, providers=["CPUExecutionProvider"])

    def run(self, inputs: Tensor) -> Any:
        """What the graph returns."""
        if self._threads != torch.get_num_threads():
            self._open()
        return torch.from_numpy(self._session.run(None, {"images": inputs.detach().numpy()})[0])


class _Outputs(nn.Module):
    """A module that returns its tensor of outputs alone, also where they are a field of a larger result."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Any:
        out = self.module(images)
        return getattr(out, "logits", out)


def export(network: Network, example: Tensor, *, any_rows: bool) -> bytes:
    """The network as an ONNX graph with the input `images` and the output `outputs`."""
    axes = {"images": {0: "rows"}, "outputs": {0: "rows"}} if any_rows else None
    # The exporter that needs no further package; an older torch has no other, and no name for it.
    chosen = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    saved = io.BytesIO()
    with _quiet(), _plain_operations(), torch.inference_mode(False), torch.no_grad():
        torch.onnx.export(
            _Outputs(network.module).eval(),
            (network.place(example.clone()),),
            saved,  # type: ignore[arg-type]  # a file in memory too
            input_names=["images"],
            output_names=["outputs"],
            dynamic_axes=axes,
            do_constant_folding=False,  # onnxruntime does it
            **chosen,  # type: ignore[arg-type]
        )
    return saved.getvalue()


@contextlib.contextmanager
def _plain_operations() -> Iterator[None]:
    """Attention as the operations that it consists of: the one that torch fuses them into has no ONNX form."""
    mha = torch.backends.mha
    before = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides warnings, for the outputs are checked, and the graph that the exporter prints where it fails."""
    private: Any = torch._C
    before = getattr(private, "_jit_onnx_log", None)
    if before is not None:
        private._jit_onnx_log = lambda *_: None  # no setting of torch turns it off
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if before is not None:
            private._jit_onnx_log = before
