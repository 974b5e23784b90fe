"""Adapters that call each toolkit as its own documentation says. A toolkit is imported only when it is needed."""

from __future__ import annotations

import importlib
import warnings
from importlib import metadata

from snellen.conformance.toolkit import Toolkit
from snellen.errors import SnellenError, nearest

NEIGHBOURS = {"captum": "captum", "grad-cam": "grad_cam", "quantus": "quantus", "torchcam": "torchcam"}
"""Name of the distribution to the adapter module."""


def toolkit(name: str) -> Toolkit:
    """Snellen or another toolkit; raises before anything runs if it is not installed."""
    if name == "snellen":
        from snellen import __version__
        from snellen.conformance.adapters.snellen import OFFERS

        return Toolkit(name, __version__, OFFERS)
    if name not in NEIGHBOURS:
        names = ", ".join(NEIGHBOURS)
        raise SnellenError(f"unknown toolkit '{name}'{nearest(name, NEIGHBOURS)} (there are: {names})")
    try:
        version = metadata.version(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of other packages during their import
            module = importlib.import_module(f"{__name__}.{NEIGHBOURS[name]}")
    except (ImportError, metadata.PackageNotFoundError) as problem:
        raise SnellenError(f"'{name}' is not installed ({problem}); pip install {name}") from None
    return Toolkit(name, version, module.OFFERS)
