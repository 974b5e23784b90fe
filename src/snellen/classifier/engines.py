"""How a network computes: compiled or not, and in which precision."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from snellen.errors import SnellenError, first_line

if TYPE_CHECKING:
    from snellen.classifier.network import Network

Precision = Literal["float32", "bfloat16", "float16"]

REUSED_BYTES = 1 << 30
"""Freed memory blocks up to this size are reused by the process."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # constants of malloc.h

COMPILE_SECONDS = 30.0
"""Time to compile EfficientNet-Lite0 on two cores."""

COMPILE_SAVES = 0.4
"""Share of forward time that compiling saves, on the slower of the measured classifiers."""


def reuse_memory() -> None:
    """Tells the C library to reuse large freed blocks, for the whole process (Linux only).

    glibc returns every block above 32 MiB to the system and requests it again: with activations of that size, a forward pass
    spends as much time on page faults as on arithmetic.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            set_option(option, REUSED_BYTES)


def compiling_pays(forward_seconds: float) -> bool:
    """Whether compiling saves clearly more time than it takes, if all forward passes take `forward_seconds` without it."""
    return forward_seconds * COMPILE_SAVES > 1.5 * COMPILE_SECONDS


def compiler_missing() -> str | None:
    """Why the forward pass cannot be compiled on this machine, or None if it can."""
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++", "cl")):
        return "no C++ compiler was found"
    return None


class Compiled:
    """A module's compiled forward pass with frozen weights, for batches of exactly the example's shape.

    The constructor raises whatever the compiler raises.
    """

    def __init__(self, module: nn.Module, example: Tensor) -> None:
        self.shape = tuple(example.shape)
        self._graph = torch.compile(module, dynamic=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self(example)

    def fits(self, inputs: Tensor) -> bool:
        """Whether these rows have the right shape and fill more than half of a batch."""
        return tuple(inputs.shape[1:]) == self.shape[1:] and self.shape[0] < 2 * len(inputs)

    def logits(self, network: Network, inputs: Tensor) -> Tensor:
        """The logits of rows that fit; a short batch is filled up with copies of its first row."""
        missing = self.shape[0] - len(inputs)
        padded = torch.cat([inputs, inputs[:1].expand(missing, *inputs.shape[1:])]) if missing > 0 else inputs
        outputs = network.read(self(network.place(padded)), len(padded))
        return network.as_logits(outputs[: len(inputs)]).to(inputs.device)

    def __call__(self, inputs: Tensor) -> Any:
        import torch._inductor.config as inductor

        # Freezing folds weights into the graph only without gradients; inference mode is not enough for it.
        with inductor.patch(freezing=True), torch.no_grad():
            return self._graph(inputs)


def compile_network(network: Network, inputs: Tensor, rows: int) -> Compiled | str:
    """The compiled forward pass for batches of `rows` such inputs, or the reason why it cannot be used."""
    from snellen.classifier.calling_convention import alike

    example = network.place(inputs[:1].expand(rows, *inputs.shape[1:]).contiguous())
    try:
        compiled = Compiled(network.module, example)
        outputs = network.read(compiled(example), rows)
        with torch.no_grad():
            if network.precision == "float32" and not alike(outputs, network.raw(example)):
                return "the compiled model gives other outputs"
    except Exception as problem:  # every failure of the compiler means the same here: go on without it
        return first_line(problem)
    return compiled


@contextlib.contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Runs the body in this precision; float32 changes nothing."""
    if precision == "float32":
        yield
        return
    with torch.autocast(device.type, dtype=getattr(torch, precision)):
        yield


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raises a SnellenError if this precision does not work here; tried in another process, because it may crash."""
    if precision == "float32":
        return
    trial = (
        "import torch\n"
        f"with torch.autocast('{device.type}', dtype=torch.{precision}), torch.inference_mode():\n"
        f"    x = torch.ones(2, 3, 16, 16, device='{device}')\n"
        f"    y = torch.nn.Conv2d(3, 8, 3).to('{device}')(x).flatten(1)\n"
        f"    z = torch.nn.Linear(y.shape[1], 4).to('{device}')(y)\n"
        "assert z.isfinite().all()\n"
    )
    process = subprocess.run([sys.executable, "-c", trial], capture_output=True, text=True, timeout=120, check=False)
    if process.returncode:
        raise SnellenError(
            f"precision '{precision}' does not work on {device} here (the trial ended with code {process.returncode}); "
            "use float32"
        )
