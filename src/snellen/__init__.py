"""Snellen: the eye test for saliency maps. Names are imported when they are first used, so `import snellen` is fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snellen import methods as methods
    from snellen import metrics as metrics
    from snellen import zoo as zoo
    from snellen.classifier import Classifier as Classifier
    from snellen.errors import SnellenError as SnellenError
    from snellen.images.geometry import Geometry as Geometry
    from snellen.maps import fills as fills
    from snellen.maps.explainer import case_of as case_of
    from snellen.methods import adapters as adapters
    from snellen.report.saliency_maps import SaliencyMaps as SaliencyMaps
    from snellen.report.saliency_maps import explain as explain
    from snellen.runs import Options as Options
    from snellen.runs import Run as Run
    from snellen.runs import fit as fit
    from snellen.runs.evaluate import evaluate as evaluate
    from snellen.runs.score import score as score
    from snellen.types import Case as Case
    from snellen.types import Rng as Rng
    from snellen.types import Sample as Sample

__version__ = "0.1.0"

_MODULES = {
    "Case": "snellen.types",
    "Classifier": "snellen.classifier",
    "Geometry": "snellen.images.geometry",
    "Options": "snellen.runs",
    "Rng": "snellen.types",
    "Run": "snellen.runs",
    "SaliencyMaps": "snellen.report.saliency_maps",
    "Sample": "snellen.types",
    "SnellenError": "snellen.errors",
    "adapters": "snellen.methods",
    "case_of": "snellen.maps.explainer",
    "evaluate": "snellen.runs",
    "explain": "snellen.report.saliency_maps",
    "fills": "snellen.maps",
    "fit": "snellen.runs",
    "methods": "snellen",
    "metrics": "snellen",
    "score": "snellen.runs.score",
    "zoo": "snellen",
}
"""The module or package that holds each public name."""

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'snellen' has no attribute '{name}'")
    home = _MODULES[name]
    if name in ("adapters", "fills", "methods", "metrics", "zoo"):
        return import_module(f"{home}.{name}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return [*_MODULES, "__version__"]
