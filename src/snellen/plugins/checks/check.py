"""A check, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from snellen.errors import SnellenError


class FailedCheckError(SnellenError, AssertionError):
    """A plug-in breaks a rule of the contract: one sentence that names plug-in and check."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One rule of the contract, ready to run against one plug-in."""

    plugin: str
    """Name of the method or metric."""
    name: str
    """Name of the rule; rules that are tried on one planted network end with its kind: `finds-planted-patch/vit`."""
    function: Callable[[], None]
    """Runs the rule; it raises where the plug-in breaks it."""
    summary: str = ""
    """What the rule demands, in a sentence."""

    @property
    def rule(self) -> str:
        """The name without the network."""
        return self.name.partition("/")[0]

    def run(self) -> None:
        """Runs the check; raises FailedCheckError where the plug-in breaks the rule."""
        try:
            self.function()
        except FailedCheckError as failure:
            raise FailedCheckError(f"'{self.plugin}' fails the check {self.name}: {failure}") from None


def summary_of(function: Callable[..., None]) -> str:
    """What a rule demands: the first line of its docstring."""
    return (function.__doc__ or "").partition("\n")[0]


def require(holds: bool, sentence: str) -> None:
    """Fails the running check with this sentence unless the condition holds."""
    if not holds:
        raise FailedCheckError(sentence)


def require_close(
    values: Tensor, expected: Tensor, sentence: str, *, rtol: float = 1e-4, atol: float = 1e-6, equal_nan: bool = False
) -> None:
    """Fails the running check with this sentence unless two tensors agree to within rounding (see `torch.allclose`)."""
    require(values.shape == expected.shape, f"{sentence} (in shape)")
    close = torch.allclose(values, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    require(close, f"{sentence} (largest difference: {(values - expected).abs().max():.3g})")
