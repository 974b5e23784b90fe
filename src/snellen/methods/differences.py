"""What both rules of DeepLIFT need: how the difference between an image and a reference passes through a network.

Linear operations keep their ordinary gradient; elementwise nonlinearities get the slope of the line between image and
reference, so that the shares of the inputs sum to the difference of outputs.
Equations are those of Shrikumar et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from snellen.classifier import Classifier
from snellen.classifier.heads import WithTargets
from snellen.classifier.operations import Handler, Operation, intercepting
from snellen.classifier.targets import OutputFunction
from snellen.errors import SnellenError
from snellen.methods.refusals import refusal
from snellen.types import Images

REMEDY = "use integrated-gradients"

_SMOOTH = {"silu", "gelu", "mish", "softplus", "sigmoid", "tanh", "logsigmoid", "softsign", "tanhshrink", "erf", "exp"}
_ELEMENTWISE = {
    "neg",
    "__neg__",
    "abs",
    "square",
    "sqrt",
    "log",
    "log1p",
    "sin",
    "cos",
    "clamp",
    "clip",
    "clamp_min",
    "clamp_max",
    "hardshrink",
    "softshrink",
}
"""Unary operations that have no kind of their own."""

_SHAPE_ALONE = {
    "ones_like",
    "zeros_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "new_tensor",
}
_TURNING = {"permute", "transpose", "t", "movedim", "moveaxis", "swapaxes"}
DIVISIONS = {"div", "divide", "true_divide", "__truediv__"}


def check(name: str, classifier: Classifier) -> None:
    """Refuses a classifier whose operations cannot be seen, or whose outputs are no logits."""
    if not isinstance(classifier.module, torch.nn.Module) or "layer" not in classifier.offers:
        raise SnellenError(f"{name} must see every operation, but '{classifier.name}' is a compiled graph; {REMEDY}")
    if classifier.outputs != "logits":
        raise SnellenError(f"{name} explains logits, but '{classifier.name}' puts out {classifier.outputs}; {REMEDY}")


def check_target(name: str, classifier: Classifier, inputs: Images) -> None:
    """Refuses a function of the outputs that is not linear: the rise of its value would not be shared out."""
    head = classifier.head
    if isinstance(head, WithTargets):
        columns = head.own(classifier.uncounted_logits(inputs[:1])).shape[1]
        for target in head.further:
            if isinstance(target, OutputFunction) and not target.is_linear(columns):
                raise SnellenError(f"{name} shares out a linear function of the logits, but {target.name} is none; {REMEDY}")


def as_handler(
    name: str, rule: Callable[[Operation, list[Tensor]], Any], rows: int, constant: Handler = Operation.run
) -> Handler:
    """A handler that applies `rule` to operations on tensors that depend on the inputs, and `constant` to all others."""

    def handle(operation: Operation) -> Any:
        carried = [tensor for tensor in _tensors((operation.args, operation.kwargs)) if tensor.requires_grad]
        if not carried or operation.name in _SHAPE_ALONE:
            return constant(operation)
        if operation.name == "detach":
            return operation.values  # it stops gradients, but its values do pass on
        result = rule(operation, carried)
        turned = operation.name in _TURNING and result.shape[0] != carried[0].shape[0]
        if turned or any(tensor.dim() == 0 or tensor.shape[0] % rows for tensor in _tensors(result)):
            raise refusal(name, operation, f"it mixes the images of a batch; {REMEDY}")
        return result

    return handle


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def walk(classifier: Classifier, images: Images, handler: Handler) -> None:
    """Runs images through the handler only to see the operations; these passes are not counted."""
    with intercepting(classifier.module, handler):
        classifier.module(images.clone())  # a copy, since a model may change its input in place


def copies(classifier: Classifier, inputs: Images, count: int) -> Float[Tensor, "{count} channels height width"]:
    """`count` copies of the first image."""
    return inputs[:1].expand(count, *inputs.shape[1:]).to(classifier.device).clone()


def run_on(operation: Operation, values: Tensor, **changed: Any) -> Any:
    """The operation on other values, with some of its named arguments changed."""
    names = ("input", "weight", "bias")
    args, kwargs = list(operation.args), dict(operation.kwargs)
    for key, value in {"input": values, **changed}.items():
        place = names.index(key) if key in names else len(args)
        if place < len(args):
            args[place] = value
        else:
            kwargs[key] = value
    assert operation.func is not None
    return operation.func(*args, **kwargs)


def is_nonlinear(operation: Operation) -> bool:
    """Whether the operation is an elementwise nonlinearity."""
    unary = operation.kind in ("rectifier", "activation") and operation.name != "glu"
    return unary or (operation.kind == "other" and operation.name in _ELEMENTWISE)


def is_linear(operation: Operation, carried: list[Tensor]) -> bool:
    """Whether the operation is linear, up to a constant, in what depends on the inputs."""
    if operation.kind in ("mean-pool", "concatenate", "shape", "identity", "add"):
        return True
    if operation.kind == "batch-norm":
        return len(carried) == 1 and not operation.argument(5, "training", False)
    if operation.kind == "multiply":
        whole = operation.kwargs.get("rounding_mode") is not None
        below = operation.name in DIVISIONS and carried[0] is not operation.values
        return len(carried) == 1 and not whole and not below
    return operation.kind in ("linear", "convolution", "product") and len(carried) == 1


def derivative(operation: Operation, at: Tensor) -> Tensor:
    """The slope of an elementwise function at each number."""
    if operation.kind == "rectifier":
        return ((at > 0) & (at < operation.ceiling)).to(at)
    with torch.enable_grad():
        leaf = at.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(run_on(operation, leaf).sum(), leaf)
    return slope


def secant(operation: Operation, high: Tensor, low: Tensor, rise: Tensor) -> Tensor:
    """The slope of the line between two points of an elementwise function that rises by `rise` between them."""
    run = high - low
    # Where the points nearly meet, a quotient of rounded differences is less exact than the derivative half-way, which
    # for a smooth function differs from the slope by the square of their distance. At a kink the distance must be smaller.
    near = run.abs() < (3e-3 if operation.name in _SMOOTH else 1e-6)
    if not bool(near.any()):
        return rise / run
    middle = (high + low) / 2 if operation.name in _SMOOTH else high
    return torch.where(near, derivative(operation, middle), rise / run)


@torch.no_grad()
def pooling(name: str, operation: Operation, image: Tensor, reference: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Both results of a max-pool, the places that get the differences, and the multipliers there.

    The whole difference goes to the largest value of the image or of the reference, whichever is larger. There the values
    differ at least as much as the maxima do, so the multiplier lies between 0 and 1.
    """
    (now, at_image), (start, at_reference) = (_maxima(name, operation, values) for values in (image, reference))
    place = torch.where(now >= start, at_image, at_reference)
    run = gather(image, place) - gather(reference, place)
    return now, start, place, torch.where(run == 0, 1.0, (now - start) / run)


def _maxima(name: str, operation: Operation, values: Tensor) -> tuple[Tensor, Tensor]:
    """What a max-pool gives, and where in the flattened map each maximum sits."""
    args, kwargs = operation.args[1:], dict(operation.kwargs)
    kwargs.pop("input", None)
    if operation.name == "amax":
        dims = operation.argument(1, "dim", ())
        dims = sorted(dim % values.dim() for dim in ([dims] if isinstance(dims, int) else dims))
        if dims != list(range(2, values.dim())):
            raise refusal(name, operation, REMEDY)
        highest, places = values.flatten(2).max(dim=-1)
        shape = values.shape[:2] + (1,) * (len(dims) if operation.argument(2, "keepdim", False) else 0)
        return highest.view(shape), places.view(shape)
    most = 1 if operation.name.startswith("adaptive") else 5
    if kwargs.pop("return_indices", False) or any(args[most:]):
        raise refusal(name, operation, REMEDY)
    pool = getattr(functional, operation.name)
    highest, places = pool(values, *args[:most], **kwargs, return_indices=True)
    return highest, places


def gather(values: Tensor, places: Tensor) -> Tensor:
    """The values at these places; all dimensions behind the batch and channels are counted as one."""
    return values.flatten(2).gather(-1, places.reshape(*values.shape[:2], -1)).view(places.shape)
