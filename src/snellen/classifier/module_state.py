"""The state of a module that something was prepared from: its tensors and hooks."""

from __future__ import annotations

from torch import nn


class ModuleState:
    """The tensors of a module as they are now, to see later whether what was prepared from it still stands for it."""

    def __init__(self, module: nn.Module) -> None:
        self._modules = list(module.modules())
        self._tensors = [*module.parameters(), *module.buffers()]
        self._versions = self._current_versions()

    def holds(self) -> bool:
        """Whether no tensor was written to since, and no module has hooks, which the prepared one would not call."""
        if any(module._forward_hooks or module._forward_pre_hooks for module in self._modules):
            return False
        return self._current_versions() == self._versions

    def _current_versions(self) -> list[int]:
        return [0 if tensor.is_inference() else tensor._version for tensor in self._tensors]
