"""What a method that wraps another takes over from it."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

from snellen.classifier import Classifier
from snellen.plugins.registry import traits
from snellen.types import Images, Method, Passes


@runtime_checkable
class Wrapping(Protocol):
    """A method over any other."""

    @property
    def of(self) -> Method: ...


def take_over(wrapper: Wrapping, *, signed: bool, deterministic: bool, control: bool) -> None:
    """Gives the wrapper the needs and traits of the wrapped method, except those stated here.

    The evidence for a trait was measured over the method that is wrapped by default.
    """
    inner, own = traits(wrapper.of), traits(type(wrapper))
    if inner.positive:
        raise ValueError(
            f"{inner.name} is made of the masks, so no method can explain other images by it; name another method"
        )
    default = next(field.default for field in dataclasses.fields(wrapper) if field.name == "of")  # type: ignore[arg-type]
    taken = dataclasses.replace(
        own,
        signed=signed,
        deterministic=deterministic,
        control=control,
        family="control" if control else own.family,
        needs=inner.needs,
        class_specific=inner.class_specific,
        implementation_invariant=(own if wrapper.of == default else inner).implementation_invariant,
        at_most=inner.at_most,
    )
    object.__setattr__(wrapper, "traits", taken)


# Wrappers assign these in the body of their class: `prepare = prepare_inner`.


def prepare_inner(self: Wrapping, classifier: Classifier, inputs: Images) -> None:
    """Prepares the wrapped method, which may refuse the classifier."""
    prepare = getattr(self.of, "prepare", None)
    if prepare is not None:
        prepare(classifier, inputs)


def inner_passes(self: Wrapping, size: tuple[int, int], classifier: Classifier) -> Passes:
    """The passes of the wrapped method."""
    return self.of.passes(size, classifier)
