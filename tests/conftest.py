from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from torchvision_kernels import import_torchvision

# Tests run side by side (pytest -n), and the networks are tiny: more threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def torchvision() -> object:
    """The torchvision package, also where only its compiled kernels are missing; skipped where it is not installed."""
    try:
        return import_torchvision()
    except ImportError:
        pytest.skip("torchvision is not installed")
