"""Faster arithmetic that must not change an answer: a compiled forward pass, and a precision that is tried first."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from snellen.errors import SnellenError

Precision = Literal["float32", "bfloat16", "float16"]

KEPT_BYTES = 1 << 30
"""Blocks up to this size are kept by the process once it has them."""


def reuse_memory() -> None:
    """Tells the C library to reuse large blocks instead of returning each one to the system.

    glibc maps every block above 32 MiB anew, and the system hands it over page by page: with activations of that size a
    forward pass spends as long on page faults as on arithmetic. Holds for the whole process; other systems need nothing.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None).mallopt
        for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            allocator(option, KEPT_BYTES)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of malloc.h

COMPILE_SECONDS = 30.0
"""What compiling EfficientNet-Lite0 takes on two cores; a plan must save clearly more than this."""

COMPILE_SAVES = 0.4
"""The share of forward time that a compiled graph saves on the slower of the classifiers that were measured."""


def compiling_pays(forward_seconds: float) -> bool:
    """Whether a plan of this many seconds of forward passes earns back the time to compile."""
    return forward_seconds * COMPILE_SAVES > 1.5 * COMPILE_SECONDS


def compiler_missing() -> str | None:
    """Why the forward pass cannot be compiled here, or None when it can."""
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++", "cl")):
        return "no C++ compiler was found"
    return None


class Compiled:
    """A module's forward pass with its weights frozen in, for batches of exactly the example's shape.

    Making one raises whatever the compiler raises; the caller then stays with the plain module.
    """

    def __init__(self, module: nn.Module, example: Tensor) -> None:
        self.shape = tuple(example.shape)
        self._graph = torch.compile(module, dynamic=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self(example)

    def fits(self, inputs: Tensor) -> bool:
        """Whether these rows, filled up to a full batch, are better off here: more than half of the batch must be real."""
        return tuple(inputs.shape[1:]) == self.shape[1:] and self.shape[0] < 2 * len(inputs)

    def __call__(self, inputs: Tensor) -> Any:
        import torch._inductor.config as inductor

        # Freezing folds weights into the graph only where no gradient can be asked for; inference mode is not enough for it.
        with inductor.patch(freezing=True), torch.no_grad():
            return self._graph(inputs)


@contextlib.contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Runs the body in the chosen precision; float32 is left entirely alone."""
    if precision == "float32":
        yield
        return
    with torch.autocast(device.type, dtype=getattr(torch, precision)):
        yield


def check_precision(precision: Precision, device: torch.device) -> None:
    """Tries the precision in a process of its own, because on some processors it ends the process."""
    if precision == "float32":
        return
    probe = (
        "import torch\n"
        f"with torch.autocast('{device.type}', dtype=torch.{precision}), torch.inference_mode():\n"
        f"    x = torch.ones(2, 3, 16, 16, device='{device}')\n"
        f"    y = torch.nn.Conv2d(3, 8, 3).to('{device}')(x).flatten(1)\n"
        f"    z = torch.nn.Linear(y.shape[1], 4).to('{device}')(y)\n"
        "assert z.isfinite().all()\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SnellenError(
            f"precision '{precision}' does not work on {device} here (the trial ended with code {done.returncode}); "
            "use float32"
        )
