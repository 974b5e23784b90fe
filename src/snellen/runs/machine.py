"""Facts about where a run was made: processor, memory, versions of packages, git revision."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import torch


def machine() -> dict[str, str | int | float | None]:
    """What timings depend on: processor, memory in GiB, threads, graphics card, system and versions."""
    memory = None
    with contextlib.suppress(ValueError, OSError, AttributeError):
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": memory,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """The versions of packages that can change a score."""
    packages = {}
    for name in (
        "snellen",
        "torch",
        "numpy",
        "pillow",
        "pandas",
        "pyarrow",
        "timm",
        "torchvision",
        "scikit-image",
        "onnxruntime",
    ):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return packages


def revision() -> str | None:
    """The git revision of a source checkout of Snellen, with a plus sign when files differ from it."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    try:
        git = ["git", "-C", str(checkout)]
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            [*git, "status", "--porcelain"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if dirty else "")


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
