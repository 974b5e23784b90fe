"""Slow twins: one image at a time, plain loops. One module per family of metrics; all are found by themselves.

A module may hold
- `TWINS`: metric name to `twin(scene, i, saliency) -> float`, the score of sample i by the most naive code there is;
- `PAIRS`: metric name to (good method, bad method) where `Knowing` and `Misled` are not the pair that it should tell apart;
- `LIGHT`: metric name to settings with which the contract is tried, where the defaults take long on a tiny network.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

TWINS: dict[str, Callable[..., float]] = {}
PAIRS: dict[str, tuple[Any, Any]] = {}
LIGHT: dict[str, dict[str, Any]] = {}

for _module in pkgutil.iter_modules(__path__):
    _family = importlib.import_module(f"{__name__}.{_module.name}")
    for _kind in (TWINS, PAIRS, LIGHT):
        _name = next(one for one, held in list(globals().items()) if held is _kind)
        _kind.update(getattr(_family, _name, {}))
