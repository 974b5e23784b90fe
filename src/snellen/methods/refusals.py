"""Errors that refuse a classifier before anything is computed; they name the operation and its layer."""

from __future__ import annotations

from collections.abc import Collection

from snellen.classifier import Classifier
from snellen.classifier.operations import Kind, Operation
from snellen.errors import SnellenError
from snellen.types import Images


def refuse(name: str, operation: Operation, remedy: str) -> SnellenError:
    """The error for an operation that the method has no rule for."""
    where = f" at {operation.layer}" if operation.layer else ""
    return SnellenError(f"{name} cannot pass through {operation.name}{where}; {remedy}")


def only(name: str, kinds: Collection[Kind], classifier: Classifier, inputs: Images, remedy: str) -> None:
    """Refuses the first operation whose kind is not among these."""
    for operation in classifier.operations(inputs):
        if operation.kind not in kinds:
            raise refuse(name, operation, remedy)


def only_rectifiers(name: str, classifier: Classifier, inputs: Images) -> None:
    """Refuses a classifier with another activation function than ReLU and ReLU6, or without any."""
    activations = [operation for operation in classifier.operations(inputs) if operation.kind in ("rectifier", "activation")]
    for operation in activations:
        if operation.kind == "activation":
            raise refuse(name, operation, "it is defined for ReLU only; use gradient")
    if not activations:
        raise SnellenError(f"{name} is defined for ReLU only, but no ReLU was seen in '{classifier.name}'; use gradient")
