"""How each toolkit is asked. A neighbour is imported only when it is asked for, and called as its own documentation says."""

from __future__ import annotations

import importlib
import warnings
from importlib import metadata

from snellen.conformance.toolkit import Toolkit
from snellen.errors import SnellenError, nearest

NEIGHBOURS = {"captum": "captum", "grad-cam": "grad_cam", "quantus": "quantus", "torchcam": "torchcam"}
"""Name of the distribution to the module here that speaks to it."""


def toolkit(name: str) -> Toolkit:
    """Snellen, or one of its neighbours; one that is not installed is refused before anything runs."""
    if name == "snellen":
        from snellen import __version__
        from snellen.conformance.adapters.snellen import OFFERS

        return Toolkit(name, __version__, OFFERS)
    if name not in NEIGHBOURS:
        known = ", ".join(NEIGHBOURS)
        raise SnellenError(f"unknown toolkit '{name}'{nearest(name, NEIGHBOURS)} (known are: {known})")
    try:
        version = metadata.version(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a neighbour warns of while it is imported is its own affair
            module = importlib.import_module(f"{__name__}.{NEIGHBOURS[name]}")
    except (ImportError, metadata.PackageNotFoundError) as problem:
        raise SnellenError(f"'{name}' cannot be asked, for it is not installed ({problem}); pip install {name}") from None
    return Toolkit(name, version, module.OFFERS)
