"""Relatives of a classifier that need no training: randomised, pruned, quantised, mixed, summed and shifted copies.

Each is a classifier of its own, made anew from a copy; the original is never changed. Nothing here is kept but names, so a
relative lives only as long as somebody looks at it. A distilled relative has to be trained, so a recipe makes it.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import Classifier, probes
from snellen.classifier.cache import CachePerObject
from snellen.errors import SnellenError
from snellen.types import Rng

AGREE = 2e-5
"""Two functions are the same when no logit differs by more than this share of the largest logit of its row."""


@dataclass(frozen=True)
class WeightLayer:
    """A layer with weights, and the layers after it that only scale or shift (normalisations), up to the next such layer."""

    name: str
    modules: tuple[str, ...]


def probe(classifier: Classifier, size: tuple[int, int]) -> Float[Tensor, "2 channels height width"]:
    """Two noise pictures, a faint and a loud one, on which functions are compared before any picture is seen."""
    noise = np.random.default_rng(7).standard_normal((2, classifier.channels, *size), dtype=np.float32)
    return torch.from_numpy(noise) * torch.tensor([0.5, 6.0]).view(2, 1, 1, 1)


def agree(found: Float[Tensor, "rows classes"], wanted: Float[Tensor, "rows classes"]) -> bool:
    """Whether two tables of logits say the same to float tolerance."""
    room = AGREE * wanted.abs().amax(dim=1, keepdim=True)
    return bool(((found - wanted).abs() <= room).all())


_CACHE = CachePerObject()


def weight_layers(classifier: Classifier, size: tuple[int, int]) -> tuple[WeightLayer, ...]:
    """All layers with weights in the order of a pass, so the top one is last; a black box has none."""
    if "layer" not in classifier.offers:
        return ()
    return _CACHE.get_or_compute(classifier, ("layers", size), lambda: _find_weight_layers(classifier, size))


def _find_weight_layers(classifier: Classifier, size: tuple[int, int]) -> tuple[WeightLayer, ...]:
    picture = probe(classifier, size)[:1]
    groups: list[list[str]] = []
    first: list[str] = []
    for name in probes.called(classifier.module, lambda: classifier.uncounted_logits(picture)):
        layer = classifier.module.get_submodule(name)
        if not _scales(layer):
            groups.append([name, *first])
            first = []
        elif list(layer.parameters(recurse=False)) or getattr(layer, "running_mean", None) is not None:
            (groups[-1] if groups else first).append(name)
    return tuple(WeightLayer(group[0] or "the model's own", tuple(group)) for group in groups)


def _scales(layer: nn.Module) -> bool:
    """Whether it has no weights but those of a normalisation, which may have several axes."""
    return isinstance(layer, nn.LayerNorm) or all(one.dim() < 2 for one in layer.parameters(recurse=False))


# Other weights ------------------------------------------------------------------------------------------------------


def randomised(classifier: Classifier, layers: Sequence[WeightLayer], *, rng: Rng) -> Classifier:
    """The classifier with these layers as if never trained; a layer's draw depends on the seed and its name alone.

    Weights are normal with variance 2 / fan-in (He et al. 2015), which keeps the size of what passes through; biases are 0;
    a normalisation scales by 1, shifts by 0 and forgets its running mean (0) and variance (1). A parameter that is none of
    these, such as a class token, is normal with its own mean and spread.
    """
    return next(randomised_in_turn(classifier, [layers], rng=rng))


def randomised_in_turn(classifier: Classifier, stages: Iterable[Sequence[WeightLayer]], *, rng: Rng) -> Iterator[Classifier]:
    """As `randomised`, for each of several sets of layers: one copy serves them all, so each is good until the next."""
    module = copy.deepcopy(classifier.module)
    drawn: dict[str, WeightLayer] = {}
    for stage in stages:
        wanted = {layer.name: layer for layer in stage}
        with torch.no_grad():
            for name in [one for one in drawn if one not in wanted]:
                for part in drawn.pop(name).modules:
                    _restore(module.get_submodule(part), classifier.module.get_submodule(part))
            for name, layer in wanted.items():
                if name not in drawn:
                    drawn[name] = layer
                    for part in layer.modules:
                        _redraw(module.get_submodule(part), part, rng)
        yield made_of(classifier, module, f"{len(stage)} layers randomised")


def _restore(module: nn.Module, original: nn.Module) -> None:
    for mine, own in (
        (module.parameters(recurse=False), original.parameters(recurse=False)),
        (module.buffers(recurse=False), original.buffers(recurse=False)),
    ):
        for one, known in zip(mine, own, strict=True):
            one.copy_(known)


def _redraw(module: nn.Module, where: str, rng: Rng) -> None:
    scaling = _scales(module)
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias"):
            parameter.zero_()
        elif scaling and name == "weight":
            parameter.fill_(module.init if isinstance(module, nn.PReLU) else 1.0)
        else:
            draw = rng.shared(f"randomised/{where}/{name}").standard_normal(tuple(parameter.shape), dtype=np.float32)
            fresh = torch.from_numpy(draw).to(parameter)
            if "weight" in name and parameter.dim() > 1:
                parameter.copy_(fresh * (2 / parameter[0].numel()) ** 0.5)
            else:
                parameter.copy_(parameter.mean() + fresh * parameter.std(correction=0))
    if isinstance(getattr(module, "running_mean", None), Tensor):
        module.running_mean.zero_()  # type: ignore[operator]
        module.running_var.fill_(1.0)  # type: ignore[operator]


def pruned(classifier: Classifier, share: float) -> Classifier:
    """The classifier without the `share` of its weights that are smallest in magnitude, over all layers together.

    Of equal weights those that come first go first.
    """
    module = copy.deepcopy(classifier.module)
    weights = _matrices(module)
    if not weights:
        raise SnellenError(f"'{classifier.name}' has no weights to prune")
    sizes = torch.cat([one.abs().flatten() for one in weights])
    count = int(share * len(sizes))
    with torch.no_grad():
        if count:
            limit = float(np.partition(sizes.cpu().numpy(), count - 1)[count - 1])
            kept = sizes > limit
            equal = (sizes == limit).nonzero().flatten()
            kept[equal[count - int((sizes < limit).sum()) :]] = True
            for one, mine in zip(weights, kept.split([one.numel() for one in weights]), strict=True):
                one.mul_(mine.view_as(one))
    return made_of(classifier, module, f"{share:.0%} of its weights pruned")


def quantised(classifier: Classifier, bits: int) -> Classifier:
    """The classifier with the weights of each output channel rounded to 2^bits - 1 even steps around 0.

    The rounding is simulated: weights stay floats, so that gradients exist.
    """
    module = copy.deepcopy(classifier.module)
    top = 2 ** (bits - 1) - 1
    with torch.no_grad():
        for one in _matrices(module):
            step = one.abs().flatten(1).amax(dim=1).div(top).clamp_min(torch.finfo(one.dtype).tiny)
            step = step.view(-1, *[1] * (one.dim() - 1))
            one.copy_((one / step).round() * step)
    return made_of(classifier, module, f"weights of {bits} bits")


def _matrices(module: nn.Module) -> list[nn.Parameter]:
    """Every weight with a fan-in: no bias, no scale of a normalisation."""
    scales = {id(one) for layer in module.modules() if _scales(layer) for one in layer.parameters(recurse=False)}
    return [
        one
        for name, one in module.named_parameters()
        if one.dim() > 1 and "weight" in name.rpartition(".")[2] and id(one) not in scales
    ]


# Other outputs ------------------------------------------------------------------------------------------------------


def mixed(classifier: Classifier, weight: float, size: tuple[int, int]) -> Classifier:
    """The classifier whose logit k is weight · logit k + (1 - weight) · logit k + 1, the last class followed by the first.

    With weight 0 that is the same classifier with its classes renamed. Where the logits come from one linear layer, the
    mixture is one of that layer's weights, so all else stays as it was.
    """
    name = f"classes mixed {weight:g} to {1 - weight:g}"
    layers = weight_layers(classifier, size)

    def mix(logits: Tensor) -> Tensor:
        return weight * logits + (1 - weight) * logits.roll(-1, dims=1)

    def in_the_head() -> Classifier | None:
        if not layers or type(classifier.module.get_submodule(layers[-1].modules[0])) is not nn.Linear:
            return None
        module = copy.deepcopy(classifier.module)
        head = module.get_submodule(layers[-1].modules[0])
        with torch.no_grad():
            for one in head.parameters(recurse=False):
                one.copy_(weight * one + (1 - weight) * one.roll(-1, dims=0))
        return made_of(classifier, module, name)

    def same(made: Classifier) -> bool:
        picture = probe(classifier, size)
        return agree(made.uncounted_logits(picture), mix(classifier.uncounted_logits(picture)))

    made = _if_same(classifier, ("mixed", weight, size), in_the_head, same)
    return made or _around(classifier, name, after=lambda outputs: _outputs(classifier, mix(_logits(classifier, outputs))))


class Sum(nn.Module):
    """weight · first + (1 - weight) · second, of the logits of two classifiers side by side."""

    def __init__(self, first: Classifier, second: Classifier, weight: float) -> None:
        super().__init__()
        self.first, self.second, self.weight = first.module, second.module, weight
        self.outputs = first.outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, or what stands for them."""
        one, two = (_logits(self, net(inputs)) for net in (self.first, self.second))
        return _outputs(self, self.weight * one + (1 - self.weight) * two)

    def extra_repr(self) -> str:
        """The weight."""
        return f"weight={self.weight}, outputs={self.outputs}"


def summed(first: Classifier, second: Classifier, weight: float) -> Classifier:
    """The classifier whose logits are weight · those of the first + (1 - weight) · those of the second."""
    name = f"plus another, {weight:g} to {1 - weight:g}"
    return made_of(first, Sum(first, second, weight), name, copied=False, larger=True)


def _logits(of: Classifier | Sum, outputs: Any) -> Tensor:
    raw = getattr(outputs, "logits", outputs)
    raw = raw if isinstance(raw, Tensor) else torch.as_tensor(raw)
    return raw.clamp_min(1e-12).log() if of.outputs == "probabilities" else raw


def _outputs(of: Classifier | Sum, logits: Tensor) -> Tensor:
    return logits.exp() if of.outputs == "probabilities" else logits


# Other inputs -------------------------------------------------------------------------------------------------------


def shifted(classifier: Classifier, shift: float, size: tuple[int, int]) -> Classifier:
    """The classifier that says of inputs + shift what the original says of inputs (Kindermans et al. 2019).

    The bias of the first layer absorbs the shift where that layer alone reads the inputs, with the padding shifted too;
    elsewhere the shift is taken away first. Its mean moves along, so both see the same pixels.
    """
    name = f"inputs shifted by {shift:g}"
    layers = [one for layer in weight_layers(classifier, size) for one in layer.modules]

    def in_the_bias() -> Classifier | None:
        module = copy.deepcopy(classifier.module)
        first = next((one for one in layers if type(module.get_submodule(one)) in (nn.Conv2d, nn.Linear)), None)
        if first is None:
            return None
        with torch.no_grad():
            _absorb(module, first, shift)
        return made_of(classifier, module, name)

    def same(made: Classifier) -> bool:
        picture = probe(classifier, size)
        return agree(made.uncounted_logits(picture + shift), classifier.uncounted_logits(picture))

    made = _if_same(classifier, ("shifted", shift, size), in_the_bias, same)
    made = made or _around(classifier, name, before=lambda inputs: inputs - shift)
    made.mean = classifier.mean - shift * classifier.std
    return made


def _absorb(module: nn.Module, name: str, shift: float) -> None:
    """Takes the shift out again in the bias of the layer, and pads with the shift where the layer pads with zeros."""
    layer: Any = module.get_submodule(name)
    reach = layer.weight.flatten(1).sum(dim=1, dtype=torch.float64) * shift
    old = torch.zeros_like(layer.weight.flatten(1)[:, 0]) if layer.bias is None else layer.bias
    layer.bias = nn.Parameter((old.double() - reach).to(layer.weight.dtype), requires_grad=False)
    around = name.rpartition(".")[0]
    for beside, pad in list(module.get_submodule(around).named_children()):
        if isinstance(pad, nn.ZeroPad2d):  # whether it was this layer's is found out by comparing
            put(module, f"{around}.{beside}".lstrip("."), nn.ConstantPad2d(pad.padding, shift))
    margins = getattr(layer, "_reversed_padding_repeated_twice", [0])
    if any(margins) and layer.padding_mode == "zeros":
        layer.padding = (0, 0)
        put(module, name, nn.Sequential(nn.ConstantPad2d(tuple(margins), shift), layer))


# Making -------------------------------------------------------------------------------------------------------------


def put(module: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """Puts a layer in the place of the named one, and gives back what stood there."""
    around, _, last = name.rpartition(".")
    parent = module.get_submodule(around)
    old = getattr(parent, last)
    setattr(parent, last, layer)
    return old  # type: ignore[no-any-return]


def made_of(
    classifier: Classifier, module: nn.Module, name: str, *, copied: bool = True, larger: bool = False
) -> Classifier:
    """A relative of this module that knows what the classifier learnt; a `larger` one holds more in a pass."""
    made = classifier.variant(module, name, copied=copied)
    made.fitted_state = classifier.fitted_state
    if not larger:
        made.rows, made.gradient_rows = classifier.rows, classifier.gradient_rows
    return made


def _if_same(
    classifier: Classifier,
    key: tuple[Any, ...],
    build: Callable[[], Classifier | None],
    same: Callable[[Classifier], bool],
) -> Classifier | None:
    """What `build` makes, if it computes what it should; that is tried once, and only the result of the trial is cached."""

    def build_is_same() -> bool:
        made = build()
        return made is not None and same(made)

    if "layer" not in classifier.offers or not _CACHE.get_or_compute(classifier, key, build_is_same):
        return None
    return build()


def _around(
    classifier: Classifier,
    name: str,
    *,
    before: Callable[[Tensor], Tensor] = lambda inputs: inputs,
    after: Callable[[Any], Any] = lambda outputs: outputs,
) -> Classifier:
    """The same model between two functions; its layers keep their names."""
    if "layer" in classifier.offers:
        module = copy.deepcopy(classifier.module)
        kind: Any = type(module)
        module.__class__ = type(kind.__name__, (kind,), {"forward": lambda self, x: after(kind.forward(self, before(x)))})
        made = made_of(classifier, module, name)
    elif "gradients" in classifier.offers:
        made = made_of(classifier, _Between(copy.deepcopy(classifier.module), before, after), name)
    else:
        made = classifier.variant(lambda inputs: after(classifier.network.run(before(inputs))), name)
    made.fingerprint = hashlib.sha256(f"{classifier.fingerprint} {name}".encode()).hexdigest()[:16]
    return made


class _Between(nn.Module):
    """A model without layers between two functions."""

    def __init__(self, net: nn.Module, before: Callable[[Tensor], Tensor], after: Callable[[Any], Any]) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, inputs: Tensor) -> Any:
        """What the model makes of it."""
        return self.after(self.net(self.before(inputs)))
