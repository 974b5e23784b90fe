"""The engine `compiled`: torch.compile with frozen weights."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from torch import Tensor

from snellen.classifier.engines.engine import Engine
from snellen.classifier.network import Network


class Compiled(Engine):
    """A module's compiled forward pass with frozen weights, for batches of exactly the example's shape.

    The constructor raises whatever the compiler raises.
    """

    name = "compiled"

    def __init__(self, network: Network, example: Tensor) -> None:
        super().__init__(network, tuple(example.shape[1:]), len(example))
        self._graph = torch.compile(network.module, dynamic=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.run(example)

    def run(self, inputs: Tensor) -> Any:
        """What the compiled module returns."""
        import torch._inductor.config as inductor

        # Freezing folds weights into the graph only without gradients; inference mode is not enough for it.
        with inductor.patch(freezing=True), torch.no_grad():
            return self._graph(self.network.place(inputs))


def compiler_missing() -> str | None:
    """Why a forward pass cannot be compiled for the processor of this machine, or None if it can."""
    if not any(shutil.which(name) for name in ("g++", "c++", "clang++", "cl")):
        return "no C++ compiler was found"
    return None


def compile_elsewhere(network: Network, example: Tensor, seconds: float) -> str | None:
    """Compiles in another process, which is ended after so many seconds; returns why that failed.

    Torch keeps the compiled code on disk, so that compiling here is short afterwards.
    """
    program = (
        "import sys, pathlib, cloudpickle, torch\n"
        "network, example, threads = cloudpickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "torch.set_num_threads(threads)\n"
        "from snellen.classifier.engines.compiled import Compiled\n"
        "Compiled(network, example)\n"
    )
    with tempfile.TemporaryDirectory(prefix="snellen-") as folder:
        packed = Path(folder) / "network.pickle"
        try:
            packed.write_bytes(cloudpickle.dumps((network, example, torch.get_num_threads())))
        except Exception as problem:  # whatever a user's own module raises when it is pickled
            return f"it cannot be sent to another process ({problem})"
        command = [sys.executable, "-c", program, str(packed)]
        # A group of its own, because the compiler is a further process.
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"compiling was ended after {seconds:.0f} s, which is what the plan would repay"
        finally:
            _end(process)
    if process.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or [f"code {process.returncode}"]
        return f"compiling failed ({last[0][:200]})"
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that still runs, and the compilers that it started."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.communicate()
