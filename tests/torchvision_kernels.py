"""torchvision without its compiled kernels: a CUDA build beside a CPU torch raises RuntimeError on import.

Naming two operators cures it; where torchvision works by itself, or is not installed, nothing is done.
"""

from __future__ import annotations

import sys

import torch


def import_torchvision() -> object:
    """The package; an ImportError where it is not installed."""
    try:
        import torchvision
    except RuntimeError:
        for name in [module for module in sys.modules if module.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision
