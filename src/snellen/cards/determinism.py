"""Whether a method gives the same map again when only the seed changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from snellen.cards.schema import Finding
from snellen.charts.numbers import count
from snellen.maps.similarity import likeness_to
from snellen.types import Maps

NEARLY = 0.95
"""From this mean rank correlation on, maps are called nearly the same."""


def repetitions(weight: float, images: int, seeds: int, budget: float) -> tuple[int, int]:
    """The number of images and of other seeds for repeated maps.

    At least one image with two seeds; then more seeds, and then more images, within the budget.

    Args:
        weight: The cost of one map, in forward passes.
        images: At most so many images.
        seeds: At most so many other seeds.
        budget: Forward passes for all repeated maps.
    """
    if seeds * weight > budget:
        return 1, max(2, int(budget // weight))
    return (min(images, int(budget // (seeds * weight))) if weight else images), seeds


def determinism(own: Maps, others: Sequence[Maps]) -> Finding:
    """The finding on determinism, from maps of the same images: `own` with the run's seed, `others` with two or more others.

    A map changed if any bit differs from the first of `others`; these have equal batches, and so equal rounding. The size
    of the change is the rank correlation with the run's own map, which is undefined for a constant map.
    """
    compare = likeness_to(own, "spearman")
    correlations = torch.stack([compare(other) for other in others]).flatten()
    changed = sum(int((other != others[0]).flatten(1).any(dim=1).sum()) for other in others[1:])
    repeated = len(own) * (len(others) - 1)
    defined = correlations[~correlations.isnan()]
    mean = float(defined.mean()) if len(defined) else math.nan
    lowest = float(defined.min()) if len(defined) else math.nan
    numbers = {
        "changed": changed / repeated,
        "mean": mean,
        "lowest": lowest,
        "undefined": len(correlations) - len(defined),
        "n": len(own),
        "seeds": len(others),
    }
    tried = f"{count(len(own), 'image')} explained under {len(others)} other seeds"
    if not changed:
        return Finding(
            attribute="determinism",
            word="exact",
            sentence=f"{tried}: every map is the same to the last bit.",
            share=1.0,
            numbers=numbers,
        )
    differing = (
        f"of {repeated} maps under the later seeds {changed} differ{'s' if changed == 1 else ''} from those under the first"
    )
    if not len(defined):
        sentence = f"{tried}: {differing}; no rank correlation is defined, because maps are constant."
        return Finding(attribute="determinism", word="varies", sentence=sentence, share=math.nan, numbers=numbers)
    undefined = f" ({numbers['undefined']} undefined: constant maps)" if numbers["undefined"] else ""
    sentence = (
        f"{tried}: {differing}; rank correlation with the run's own maps {mean:.2f} on average, {lowest:.2f} at the "
        f"lowest{undefined}."
    )
    return Finding(
        attribute="determinism",
        word="nearly the same" if mean >= NEARLY else "varies",
        sentence=sentence,
        share=max(0.0, mean),
        numbers=numbers,
    )
