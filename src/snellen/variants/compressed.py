"""Variants of a classifier with fewer or coarser weights."""

from __future__ import annotations

import copy

import numpy as np
import torch

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.variants.build import make_variant
from snellen.variants.weight_layers import weight_matrices


def prune(classifier: Classifier, share: float) -> Classifier:
    """The classifier with this share of its weights set to 0: the smallest in magnitude over all layers.

    Of equal weights the first ones are pruned.
    """
    module = copy.deepcopy(classifier.module)
    weights = weight_matrices(module)
    if not weights:
        raise SnellenError(f"'{classifier.name}' has no weights to prune")
    sizes = torch.cat([weight.abs().flatten() for weight in weights])
    count = int(share * len(sizes))
    with torch.no_grad():
        if count:
            limit = float(np.partition(sizes.cpu().numpy(), count - 1)[count - 1])
            remains = sizes > limit
            equal = (sizes == limit).nonzero().flatten()
            remains[equal[count - int((sizes < limit).sum()) :]] = True
            for weight, mask in zip(weights, remains.split([weight.numel() for weight in weights]), strict=True):
                weight.mul_(mask.view_as(weight))
    return make_variant(classifier, module, f"{share:.0%} of its weights pruned")


def quantise(classifier: Classifier, bits: int) -> Classifier:
    """The classifier with the weights of each output channel rounded to 2^bits - 1 even steps around 0.

    The weights stay floats, so that gradients exist.
    """
    module = copy.deepcopy(classifier.module)
    top = 2 ** (bits - 1) - 1
    with torch.no_grad():
        for weight in weight_matrices(module):
            step = weight.abs().flatten(1).amax(dim=1).div(top).clamp_min(torch.finfo(weight.dtype).tiny)
            step = step.view(-1, *[1] * (weight.dim() - 1))
            weight.copy_((weight / step).round() * step)
    return make_variant(classifier, module, f"weights of {bits} bits")
