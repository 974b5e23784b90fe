"""Slow twins: naive implementations of the metrics, one image at a time. All modules of this package are loaded.

A module may hold
- `TWINS`: metric name to `twin(scene, i, saliency) -> float`, the score of sample i, computed naively;
- `LIGHT`: metric name to settings with which the contract is tried, where the defaults take long on a tiny network.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

TWINS: dict[str, Callable[..., float]] = {}
LIGHT: dict[str, dict[str, Any]] = {}

for _module in pkgutil.iter_modules(__path__):
    _family = importlib.import_module(f"{__name__}.{_module.name}")
    for _kind in (TWINS, LIGHT):
        _name = next(name for name, value in list(globals().items()) if value is _kind)
        _kind.update(getattr(_family, _name, {}))
