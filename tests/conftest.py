from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

# Tests run side by side (pytest -n), and the networks are tiny: more threads would only wait for each other.
torch.set_num_threads(1)


def _torchvision_without_its_kernels() -> None:
    """A CUDA build of torchvision beside a CPU torch raises RuntimeError on import; naming two operators cures it."""
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@pytest.fixture(scope="session")
def torchvision() -> object:
    """The torchvision package, also where only its compiled kernels are missing; skipped where it is not installed."""
    try:
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:
        for name in [one for one in sys.modules if one.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        _torchvision_without_its_kernels()
        import torchvision
    return torchvision
