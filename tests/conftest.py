from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from torchvision_kernels import import_torchvision

# The fast tests try the same examples every time, so that no change fails by luck; `make test-slow` searches for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", max_examples=3000, deadline=None)
hypothesis.settings.load_profile("steady")

# Tests run side by side (pytest -n), and the networks are tiny: more threads would only wait for each other.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def torchvision() -> object:
    """The torchvision package, also where its compiled kernels are missing."""
    return import_torchvision()


@pytest.fixture
def quantus(torchvision: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """The quantus package; it imports zennit, which imports torchvision."""
    monkeypatch.setattr(np, "trapz", np.trapezoid, raising=False)  # gone from NumPy, still imported there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("quantus")
