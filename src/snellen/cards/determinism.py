"""Whether a method gives the same map again when only its luck changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.cards.schema import Finding
from snellen.similarity import likening

NEARLY = 0.95
"""From this mean rank correlation on, maps are called nearly the same."""

Maps = Float[Tensor, "batch height width"]


def repetitions(costs: Mapping[str, float], images: int, seeds: int, seconds: float) -> dict[str, tuple[int, int]]:
    """By method, for how many images and other seeds there is time, given what a map costs; too slow ones are not in it.

    Methods that can do all in an even share of the time do all. Every other is made again for one image with two seeds if
    that takes no longer than all may; then with more seeds, and then for more images, the cheapest first, while there is
    time left.
    """
    even = seconds / max(1, len(costs))
    found = {
        name: (images, seeds) if images * seeds * cost <= even else (1, 2)
        for name, cost in costs.items()
        if 2 * cost <= seconds
    }
    for step in ((1, seeds), (images, seeds)):
        for name in sorted(found, key=lambda name: costs[name]):
            wanted = found | {name: max(step, found[name])}
            if sum(costs[one] * many * times for one, (many, times) in wanted.items()) <= seconds:
                found = wanted
    return found


def determinism(own: Maps, others: Sequence[Maps]) -> Finding:
    """Maps of the same images: `own` under the run's seed, `others` under other seeds, one batch each, at least two.

    A map changed when any bit of it differs from the first of the others: these were made in batches alike, so that rounding
    cannot tell them apart. How far is the rank correlation with the run's own map; a constant map has none.
    """
    compare = likening(own, "spearman")
    correlations = torch.stack([compare(one) for one in others]).flatten()
    changed = sum(int((one != others[0]).flatten(1).any(dim=1).sum()) for one in others[1:])
    repeated = len(own) * (len(others) - 1)
    known = correlations[~correlations.isnan()]
    mean = float(known.mean()) if len(known) else math.nan
    lowest = float(known.min()) if len(known) else math.nan
    numbers = {
        "changed": changed / repeated,
        "mean": mean,
        "lowest": lowest,
        "undefined": len(correlations) - len(known),
        "n": len(own),
        "seeds": len(others),
    }
    tried = f"{len(own)} image{'' if len(own) == 1 else 's'} explained under {len(others)} other seeds"
    if not changed:
        return Finding("determinism", "exact", f"{tried}: every map is the same to the last bit.", 1.0, numbers)
    count = (
        f"of {repeated} maps under the later seeds {changed} differ{'s' if changed == 1 else ''} from those under the first"
    )
    if not len(known):
        sentence = f"{tried}: {count}; no rank correlation is defined, for maps are constant."
        return Finding("determinism", "varies", sentence, math.nan, numbers)
    undefined = f" ({numbers['undefined']} undefined: constant maps)" if numbers["undefined"] else ""
    sentence = (
        f"{tried}: {count}; rank correlation with the run's own maps {mean:.2f} on average, {lowest:.2f} at the "
        f"lowest{undefined}."
    )
    return Finding("determinism", "nearly the same" if mean >= NEARLY else "varies", sentence, max(0.0, mean), numbers)
