"""The modes of torch that a caller may be in, such as those of a training loop, and that must not reach what is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def usual_modes() -> Iterator[None]:
    """Neither autocast, which would change numbers, nor inference mode, in which there are no gradients."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
