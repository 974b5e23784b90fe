"""onnx:FILE: an ONNX model as a black box, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from snellen.classifier.graphs import in_batches
from snellen.errors import SnellenError, first_line
from snellen.zoo.sources.source import LoadedModel, ModelRequest, graph_geometry, import_library, source

_TYPES = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16, "tensor(double)": torch.float64}

WRAP = "wrap it in a function of your own (package.module:function)"


class OnnxModel:
    """An ONNX graph that takes batches of any size; it holds the bytes of its file, from which another process builds it."""

    def __init__(self, saved: bytes, spec: str) -> None:
        self.saved, self.spec = saved, spec
        self._open()

    def _open(self) -> None:
        runtime = import_library("onnxruntime", self.spec, extra="onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors only
        try:
            session = runtime.InferenceSession(self.saved, options, providers=["CPUExecutionProvider"])
        except Exception as problem:
            raise SnellenError(f"'{self.spec}' cannot be loaded by onnxruntime ({first_line(problem)})") from problem
        inputs, outputs = session.get_inputs(), session.get_outputs()
        rules = (("input", inputs, "one batch of images"), ("output", outputs, "one tensor with a row per image"))
        for kind, nodes, rule in rules:
            if len(nodes) != 1:
                names = ", ".join(node.name for node in nodes)
                raise SnellenError(f"'{self.spec}' has {len(nodes)} {kind}s ({names}); a classifier has {rule}: {WRAP}")
        if inputs[0].type not in _TYPES or len(inputs[0].shape) != 4:
            shape = "×".join(map(str, inputs[0].shape))
            raise SnellenError(f"'{self.spec}' takes {inputs[0].type} of {shape}, not float images of N×C×H×W; {WRAP}")
        self.session, self.input = session, inputs[0]
        rows, *axes = (size if isinstance(size, int) else None for size in self.input.shape)
        # Exporters of TensorFlow put the channels last.
        self.channels_last = _channels_last(axes)
        self.rows = rows
        self.channels = axes[2] if self.channels_last else axes[0]
        self.size = tuple(axes[:2] if self.channels_last else axes[1:])

    def __call__(self, inputs: Tensor) -> Any:
        """The model's own outputs for all rows."""
        takes = (self.channels, *self.size)
        if any(size not in (None, side) for size, side in zip(takes, inputs.shape[1:], strict=True)):
            stated, received = ("×".join(str(size or "any") for size in shape) for shape in (takes, inputs.shape[1:]))
            raise SnellenError(f"'{self.spec}' takes images of {stated}, not {received}; leave out --size and --channels")
        return in_batches(self._run, inputs, self.rows or 1, self.rows)

    def _run(self, inputs: Tensor) -> Tensor:
        values = inputs.detach().cpu().to(_TYPES[self.input.type])
        values = values.permute(0, 2, 3, 1) if self.channels_last else values
        (outputs,) = self.session.run(None, {self.input.name: values.contiguous().numpy()})
        return torch.as_tensor(outputs)

    def __getstate__(self) -> dict[str, Any]:
        return {"saved": self.saved, "spec": self.spec}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _channels_last(axes: Sequence[int | None]) -> bool:
    """Whether the channels follow height and width: the last of three axes is 1 or 3, or the other two are equal.

    >>> _channels_last([3, 32, 32]), _channels_last([32, 32, 4]), _channels_last([None, None, 3])
    (False, True, True)
    """
    if axes[0] in (1, 3) or axes[2] is None:
        return False
    return axes[2] in (1, 3) or axes[0] == axes[1] != axes[2]


def read_onnx(path: Path, spec: str) -> bytes:
    """The bytes of an ONNX file, with the weights that an exporter put into another file of its folder."""
    if not path.is_file():
        raise SnellenError(f"there is no model file '{path}'")
    onnx = import_library("onnx", spec)
    saved = path.read_bytes()
    try:
        graph = onnx.load_from_string(saved).graph
        if any(weights.data_location == onnx.TensorProto.EXTERNAL for weights in graph.initializer):
            saved = onnx.load(path).SerializeToString()  # refuses paths outside the folder
    except Exception as problem:
        raise SnellenError(f"'{spec}' cannot be read as an ONNX file ({first_line(problem)})") from problem
    return saved


@source(
    "onnx",
    spec="onnx:FILE",
    what="an ONNX file, run by onnxruntime: a black box without gradients and layers",
    needs="snellen[onnx]",
    executes_code=False,
    libraries=("onnx", "onnxruntime"),
)
def onnx_file(request: ModelRequest) -> LoadedModel:
    """A black box from an ONNX file; the size of its images is that of the graph, where it is fixed."""
    path = Path(request.name).expanduser()
    model = OnnxModel(read_onnx(path, request.spec), request.spec)
    notes: tuple[str, ...] = ()
    if model.rows is not None:
        batch = "one image at a time" if model.rows == 1 else f"batches of exactly {model.rows} images, filled up if fewer"
        notes = (f"'{request.spec}' was exported for {batch}; a dynamic batch axis would be faster",)
    return LoadedModel(
        model=model,
        name=path.name,
        geometry=graph_geometry(model.size),
        channels=model.channels,
        rows=model.rows,
        notes=notes,
    )
