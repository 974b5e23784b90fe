"""path/model.pt and path/model.pt2: TorchScript and torch.export files."""

from __future__ import annotations

from pathlib import Path

from snellen.classifier.graphs import ScriptedModel, read_graph
from snellen.zoo.sources.source import LoadedModel, ModelRequest, graph_geometry, source

SCRIPTED = (".pt", ".pth", ".ts", ".jit")
EXPORTED = ".pt2"


def file_path(spec: str) -> str:
    """The path of a model file, without symbolic links."""
    return str(Path(spec).resolve())


@source(
    "torch-export",
    spec="path/model.pt2",
    what="a torch.export file: gradients, but no layers",
    accepts=lambda spec: spec.endswith(EXPORTED),
    origin=file_path,
)
@source(
    "torchscript",
    spec="path/model.pt",
    what="a TorchScript file: gradients, but no layers",
    accepts=lambda spec: spec.endswith(SCRIPTED),
    origin=file_path,
)
def graph(request: ModelRequest) -> LoadedModel:
    """A model from a file; the content decides which of the two it is."""
    model = read_graph(request.spec)
    name = Path(request.spec).name
    if isinstance(model, ScriptedModel):
        return LoadedModel(model=model, name=name)
    _, channels, *size = model.shape if len(model.shape) == 4 else (None, None, None, None)
    return LoadedModel(model=model, name=name, geometry=graph_geometry(size), channels=channels, rows=model.most)
