"""Toolkit: who is asked. An adapter says how one toolkit is asked for the quantities that it offers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from snellen.conformance.scene import Scene

Ask = Callable[..., Sequence[float]]
"""From a scene, and settings by name, to one number per sample; or a single number where only the mean is given out."""


Settings = Mapping[str, Any]
NONE: Settings = MappingProxyType({})


class NotOffered(Exception):  # noqa: N818 - an answer like any other, not a fault
    """The toolkit does not compute this quantity, or not with these settings."""


@dataclass(frozen=True)
class Toolkit:
    """A toolkit by name, with the version that answers and a function for each quantity that it offers.

    The signature of such a function names the settings that the toolkit can be given; others make the question one that
    it does not offer.
    """

    name: str
    version: str
    offers: Mapping[str, Ask]

    def ask(self, quantity: str, scene: Scene, settings: Settings = NONE, *, copied: bool = True) -> list[float]:
        """The toolkit's numbers; it gets a copy of the scene, as some change what they are given."""
        if quantity not in self.offers:
            raise NotOffered(quantity)
        answer = self.offers[quantity]
        try:
            inspect.signature(answer).bind(scene, **settings)
        except TypeError:
            raise NotOffered(f"{quantity} with {dict(settings)}") from None
        return [float(one) for one in answer(scene.copy() if copied else scene, **settings)]
