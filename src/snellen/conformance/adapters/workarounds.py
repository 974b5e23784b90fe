"""What some neighbours need before they can be imported at all. Where an installation is sound, nothing is done."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import torch


def working_torchvision() -> None:
    """A torchvision build that does not match torch raises RuntimeError on import; naming two operators cures it."""
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [module for module in sys.modules if module.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def old_numpy_names() -> None:
    """NumPy 2.4 removed `np.trapz`, which Quantus 0.6.0 still calls; the function of the new name is the same."""
    if not hasattr(np, "trapz"):
        np.trapz = np.trapezoid  # type: ignore[attr-defined]
