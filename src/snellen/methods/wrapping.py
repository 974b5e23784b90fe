"""What a method that wraps another takes over from it."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.plugins.registry import traits
from snellen.types import Method


@runtime_checkable
class Wrapping(Protocol):
    """A method over any other."""

    @property
    def of(self) -> Method: ...


def take_over(wrapper: Wrapping, *, signed: bool, deterministic: bool, control: bool) -> None:
    """Gives the wrapper the needs and claims of the method inside, beside those stated here.

    How far a claim was shown was measured over the method that stands inside by default.
    """
    inner, own = traits(wrapper.of), traits(type(wrapper))
    usual = next(field.default for field in dataclasses.fields(wrapper) if field.name == "of")  # type: ignore[arg-type]
    facts = dataclasses.replace(
        own,
        signed=signed,
        deterministic=deterministic,
        control=control,
        family="control" if control else own.family,
        needs=inner.needs,
        class_specific=inner.class_specific,
        implementation_invariant=(own if wrapper.of == usual else inner).implementation_invariant,
        at_most=inner.at_most,
    )
    object.__setattr__(wrapper, "traits", facts)


def prepare_inner(wrapper: Wrapping, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
    """What the method inside wants to find out, or refuse, before anything runs."""
    prepare = getattr(wrapper.of, "prepare", None)
    if prepare is not None:
        prepare(classifier, inputs)
