"""Models that are graphs instead of Python code: TorchScript and torch.export programs.

They offer gradients, but no layers. They cannot be pickled, so each holds the bytes of its file, from which another process
builds it again.
"""

from __future__ import annotations

import contextlib
import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from snellen.errors import SnellenError, first_line


class ScriptedModel(nn.Module):
    """A TorchScript model in evaluation mode."""

    def __init__(self, saved: bytes) -> None:
        super().__init__()
        self.saved = saved
        with _quiet():
            self.graph = torch.jit.load(io.BytesIO(saved), map_location="cpu").eval()
        self.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Any:
        """The model's own outputs."""
        return self.graph(inputs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _on_device, (ScriptedModel, self.saved, str(_device(self)))


class ExportedModel(nn.Module):
    """A torch.export program that takes batches of any size, even if the program itself does not.

    `least` and `most` are the smallest and largest number of rows that the program takes.
    """

    def __init__(self, saved: bytes) -> None:
        super().__init__()
        self.saved = saved
        with _quiet():
            program = torch.export.load(io.BytesIO(saved))
        _refuse_training_mode(program)
        self.shape, self.least, self.most = _batch(program)
        self.graph = program.module()
        self.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Any:
        """The program's outputs for all rows."""
        return in_batches(self.graph, inputs, self.least, self.most)

    def train(self, mode: bool = True) -> ExportedModel:
        """Does nothing, because the mode was fixed when the program was exported."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _on_device, (ExportedModel, self.saved, str(_device(self)))


Graph = ScriptedModel | ExportedModel


def in_batches(run: Callable[[Tensor], Any], inputs: Tensor, least: int, most: int | None) -> Any:
    """The outputs for all rows, of a model that takes from `least` to `most` rows per call.

    Rows are independent in evaluation mode, so a short batch is filled up with copies of its first row.

    Args:
        run: makes one call of the model.
        inputs: all rows.
        least: smallest number of rows per call.
        most: largest number of rows per call; None for no limit.
    """
    if least <= len(inputs) and (most is None or len(inputs) <= most):
        return run(inputs)
    parts = []
    for part in inputs.split(most or len(inputs)):
        missing = max(0, least - len(part))
        filled = torch.cat([part, part[:1].detach().expand(missing, *part.shape[1:])]) if missing else part
        out = run(filled)
        out = getattr(out, "logits", out)  # models of transformers
        if not isinstance(out, Tensor):
            return out
        parts.append(out[: len(part)])
    return torch.cat(parts)


def as_graph(model: Any) -> Graph | None:
    """A wrapped TorchScript module or exported program; None for other models."""
    if isinstance(model, torch.jit.ScriptModule):
        buffer = io.BytesIO()
        with _quiet():
            torch.jit.save(model, buffer)
        return ScriptedModel(buffer.getvalue())
    if isinstance(model, ExportedProgram):
        buffer = io.BytesIO()
        with _quiet():
            torch.export.save(model, buffer)
        return ExportedModel(buffer.getvalue())
    if isinstance(model, torch.fx.GraphModule) and hasattr(model, "_guards_fn"):
        raise SnellenError("give the ExportedProgram itself as a model, not its module(), which cannot be copied to workers")
    return None


def read_graph(path: str | Path) -> Graph:
    """A model from a TorchScript file (.pt) or a torch.export file (.pt2), distinguished by their content."""
    path = Path(path)
    if not path.is_file():
        raise SnellenError(f"there is no model file '{path}'")
    saved = path.read_bytes()
    kind: type[Graph]
    try:
        names = zipfile.ZipFile(io.BytesIO(saved)).namelist()
    except zipfile.BadZipFile:
        names = []
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        kind = ExportedModel
    elif any("/code/" in name for name in names):
        kind = ScriptedModel
    else:
        raise SnellenError(
            f"'{path}' is neither a TorchScript nor a torch.export file; "
            "weights alone need their model: give them with a timm: or torchvision: name, or load both in a function"
        )
    try:
        return kind(saved)
    except SnellenError as problem:
        raise SnellenError(f"'{path}' {problem}") from None
    except Exception as problem:
        raise SnellenError(f"'{path}' cannot be loaded ({first_line(problem)})") from problem


def _batch(program: ExportedProgram) -> tuple[tuple[int | None, ...], int, int | None]:
    """The shape of the input (None for any number), and the smallest and largest number of rows per call."""
    names = program.graph_signature.user_inputs
    inputs = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    if len(inputs) != 1 or not isinstance(inputs[0].meta.get("val"), Tensor):
        raise SnellenError(f"takes {len(names)} inputs; a classifier takes one batch of images")
    sizes = inputs[0].meta["val"].shape
    shape = tuple(size if isinstance(size, int) else None for size in sizes)
    rows = shape[0]
    if rows is not None:
        return shape, rows, rows
    span = program.range_constraints.get(sizes[0].node.expr)
    if span is None:
        return shape, 1, None
    # torch.export writes 2 as the smallest size of any dynamic dimension, but such a program takes a single row too.
    least = int(span.lower) if int(span.lower) > 2 else 1
    most = int(span.upper) if span.upper.is_Integer else None
    return shape, least, most


def _refuse_training_mode(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        name = str(node.target)
        if (name == "aten.batch_norm.default" and node.args[5]) or (name == "aten.dropout.default" and node.args[2]):
            raise SnellenError("was exported in training mode; call model.eval() before torch.export.export")


def _on_device(kind: type[Graph], saved: bytes, device: str) -> nn.Module:
    return kind(saved).to(device)


def _device(module: nn.Module) -> torch.device:
    return next((tensor.device for tensor in (*module.parameters(), *module.buffers())), torch.device("cpu"))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides the deprecation warnings of TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
