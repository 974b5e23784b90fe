"""Errors that refuse a classifier before anything is computed; they name the operation and its layer."""

from __future__ import annotations

from snellen.classifier import Classifier
from snellen.classifier.operations import Operation
from snellen.errors import SnellenError
from snellen.types import Images


def refusal(name: str, operation: Operation, remedy: str) -> SnellenError:
    """The error for an operation that the method has no rule for."""
    where = f" at {operation.layer}" if operation.layer else ""
    return SnellenError(f"{name} cannot pass through {operation.name}{where}; {remedy}")


def require_rectifiers(name: str, classifier: Classifier, inputs: Images) -> None:
    """Refuses a classifier with another activation function than ReLU and ReLU6, or without any."""
    activations = [operation for operation in classifier.operations(inputs) if operation.kind in ("rectifier", "activation")]
    for operation in activations:
        if operation.kind == "activation":
            raise refusal(name, operation, "it is defined for ReLU only; use gradient")
    if not activations:
        raise SnellenError(f"{name} is defined for ReLU only, but no ReLU was seen in '{classifier.name}'; use gradient")
