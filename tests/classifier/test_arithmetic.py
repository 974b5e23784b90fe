"""Precisions other than float32."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_another_precision_works_or_is_refused_and_never_ends_the_process() -> None:
    """On some processors bfloat16 ends the process, so that it is tried here in another one."""
    program = """
import torch
from snellen.classifier import Classifier
from snellen.errors import SnellenError
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3))
try:
    low = Classifier(net, precision="bfloat16")
except SnellenError as problem:
    assert "precision 'bfloat16' does not work on cpu here" in str(problem) and "use float32" in str(problem), problem
    print("refused")
else:
    inputs = torch.ones(2, 3, 8, 8)
    difference = (low.logits(inputs) - Classifier(net).logits(inputs)).abs().max()
    assert low.logits(inputs).dtype == torch.float32 and difference < 0.1, difference
    print("works")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"refused", "works"}
