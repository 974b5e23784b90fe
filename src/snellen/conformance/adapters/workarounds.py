"""Workarounds that let other toolkits be imported; they do nothing where the installation works."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import torch


def working_torchvision() -> None:
    """Imports torchvision. A build that does not match torch raises RuntimeError; defining two operators avoids that."""
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
    """Restores `np.trapz`, which NumPy 2.4 renamed to `np.trapezoid` and Quantus 0.6.0 still calls."""
    if not hasattr(np, "trapz"):
        np.trapz = np.trapezoid  # type: ignore[attr-defined]
