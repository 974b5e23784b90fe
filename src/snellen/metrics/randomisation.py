"""Model randomisation: how much of a map stays when weights of the model are redrawn at random.

All four metrics use maps of the same randomised variants (`snellen.variants`), which are computed once. The method uses
the same random draws for every variant: with new draws a map of pure noise would seem perfectly sensitive to the model.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.folding import mass
from snellen.maps.similarity import Likeness, is_constant, likeness_to
from snellen.metrics.case_cache import cached_per_case
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Passes, Rng, SharedPasses
from snellen.variants.randomised import RandomisedCopy, randomise_in_turn
from snellen.variants.weight_layers import WeightLayer, weight_layers

Variant = Literal["mprt", "smprt"]
"""Whether maps are compared as they are (mprt), or their means over noisy copies (smprt)."""
Stage = tuple[WeightLayer, ...]
"""The layers that are randomised together, from the top."""

NOISE = 0.1
"""Standard deviation of the smoothing noise, as a share of the range of each image's inputs (Hedström et al. 2024)."""

_NO_LIKENESS = "a map is constant, so it has no likeness, or the classifier has no layers with weights"
_CAVEATS = {
    "binder2023": "randomising from the top keeps much of the size and place of activations, so methods that are faithful "
    "to them may look insensitive, and noisy maps look best",
    "hedstrom2024": "the likeness depends on normalisation and on taking magnitudes; a noisy map is unlike any other",
}
_INITIAL = (
    "Randomised means: weights normal with variance 2 / fan-in, biases 0, normalisations reset with their running "
    "statistics; a normalisation belongs to the weight layer before it."
)


@dataclass(frozen=True)
class _StageCurve(CurveMetric, SharedPasses, Protocol):
    """A point per stage of randomisation: a class that inherits from it defines `stages`."""

    layers: int = 8
    """Most stages."""
    likeness: Likeness = "spearman"
    magnitude: bool = True
    """Compare magnitudes instead of signed maps."""
    variant: Variant = "mprt"
    """Compare the maps themselves (mprt), or their means over noisy copies (smprt)."""
    samples: int = 10
    """Number of noisy copies for smprt."""

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, not {self.layers}")
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

    @abstractmethod
    def stages(self, classifier: Classifier, size: tuple[int, int]) -> tuple[Stage, ...]:
        """The layers that are randomised at each point."""
        ...

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch stages"]:
        """The likeness at each stage."""
        stages = self.stages(case.classifier, case.size)
        if self.variant == "mprt":
            maps, others = case.maps, _maps_of_stages(case, stages, rng)
        else:
            maps = _smoothed(case, case.classifier, self.samples, rng) if stages else case.maps
            networks = randomise_in_turn(case.classifier, stages, rng=rng)
            others = (_smoothed(case, variant, self.samples, rng) for variant in networks)
        return _likenesses(maps, others, self.likeness, self.magnitude)

    def score(self, curve: Float[Tensor, "batch stages"]) -> Float[Tensor, " batch"]:
        """The mean over the stages that have a likeness."""
        return curve.nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The lowest randomised layer of each stage."""
        return tuple(stage[-1].name for stage in self.stages(classifier, size))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The map of each stage."""
        stages = self.stages(classifier, size)
        if self.variant == "mprt":
            return {_key(stage): explain for stage in stages}
        whole = {("smprt", self.samples): explain * self.samples} if stages else {}
        return whole | {("smprt", self.samples, *_key(stage)): explain * self.samples for stage in stages}


@metric(
    "cascading-randomisation",
    cite="adebayo2018",
    attribute="model-sensitivity",
    higher_is_better=False,
    bounds=(-1.0, 1.0),
    needs={"explain", "layer"},
    undefined=_NO_LIKENESS,
    version=2,
    test="Cascading Model Parameter Randomization",
    formula="mean over k of likeness(|Φ(x; θ)|, |Φ(x; θ with the top l_k layers redrawn)|)",
    reading="Spearman's correlation of magnitudes, one of the two in the paper; likeness=ssim and magnitude=false give "
    f"others, variant=smprt smooths both maps over noisy copies first (Hedström et al. 2024). {_INITIAL}",
    caveats=_CAVEATS,
    presets={"adebayo2018-ssim": {"likeness": "ssim"}, "hedstrom2024": {"variant": "smprt", "samples": 50, "layers": 1000}},
)
@dataclass(frozen=True)
class CascadingRandomisation(_StageCurve):
    """How alike the map stays while layers are randomised one after the other from the top: low is good.

    Adebayo et al. 2018. The curve has a point per stage, named after the lowest randomised layer; of a deep network
    `layers` evenly spaced stages are taken, the last being all layers. Likenesses 0.5 and 0.1 give 0.3. Stages with a
    constant map are left out of the mean.
    """

    def stages(self, classifier: Classifier, size: tuple[int, int]) -> tuple[Stage, ...]:
        """From the top layer alone to all layers."""
        return cascade(classifier, size, self.layers)


@metric(
    "independent-randomisation",
    cite="adebayo2018",
    attribute="model-sensitivity",
    higher_is_better=False,
    bounds=(-1.0, 1.0),
    needs={"explain", "layer"},
    undefined=_NO_LIKENESS,
    version=2,
    test="Independent Model Parameter Randomization",
    formula="mean over k of likeness(|Φ(x; θ)|, |Φ(x; θ with layer l_k redrawn)|)",
    reading="As cascading-randomisation: Spearman's correlation of magnitudes; likeness=ssim, magnitude=false and "
    f"variant=smprt give the others. {_INITIAL}",
    caveats=_CAVEATS,
    presets={"adebayo2018-ssim": {"likeness": "ssim"}, "hedstrom2024": {"variant": "smprt", "samples": 50, "layers": 1000}},
)
@dataclass(frozen=True)
class IndependentRandomisation(_StageCurve):
    """How alike the map stays when a single layer is randomised and all others stay trained: low is good.

    Adebayo et al. 2018. The curve has a point per layer, from the top; of a deep network `layers` evenly spaced ones are
    taken. Likenesses 0.5 and 0.1 give 0.3. Layers that leave a constant map are left out of the mean.
    """

    def stages(self, classifier: Classifier, size: tuple[int, int]) -> tuple[Stage, ...]:
        """One layer at a time, from the top."""
        return single(classifier, size, self.layers)


@metric(
    "weight-randomisation",
    cite="adebayo2018",
    attribute="model-sensitivity",
    higher_is_better=False,
    bounds=(-1.0, 1.0),
    needs={"explain", "layer"},
    undefined=_NO_LIKENESS,
    version=2,
    test="Model Weight Randomization",
    formula="likeness(|Φ(x; θ)|, |Φ(x; θ′)|), all weights θ′ redrawn",
    reading=f"Spearman's correlation of magnitudes; likeness=ssim and magnitude=false give others. {_INITIAL}",
    caveats=_CAVEATS,
    presets={"arun2021": {"likeness": "ssim"}},
)
@dataclass(frozen=True)
class WeightRandomisation(SharedPasses):
    """How alike the map is to that of the same network with all weights redrawn: low is good.

    Adebayo et al. 2018; used alone by Arun et al. 2021. The last stage of cascading-randomisation. The map of an edge
    detector scores nearly 1; maps with rank correlation 0.3 score 0.3.
    """

    likeness: Likeness = "spearman"
    magnitude: bool = True
    """Compare magnitudes instead of signed maps."""

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        others = _maps_of_stages(case, all_layers(case.classifier, case.size), rng)
        return _likenesses(case.maps, others, self.likeness, self.magnitude).nanmean(dim=1)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The map of the randomised model."""
        return {_key(stage): explain for stage in all_layers(classifier, size)}


@metric(
    "efficient-randomisation",
    cite="hedstrom2024",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, float("inf")),
    needs={"explain", "layer"},
    undefined="the map is constant, so its entropy is 0, or the classifier has no layers with weights",
    version=2,
    formula="(H(Φ(x; θ′)) - H(Φ(x; θ))) / H(Φ(x; θ)), all weights θ′ redrawn",
    reading="eMPRT, a metric of its own because here high is good: the entropy of a histogram of 100 bins as in the "
    "authors' code; entropy=mass takes that of the magnitude shared out over the pixels, as complexity does.",
    caveats={"hedstrom2024": "the entropy of a map of pure noise cannot rise"},
)
@dataclass(frozen=True)
class EfficientRandomisation(SharedPasses):
    """How much more disordered the map of the fully randomised model is, relative to the map itself: high is good.

    Hedström et al. 2024 (eMPRT): the relative rise of the entropy, 0 for a map that ignores the model. From an entropy
    of 2 to one of 3 it is 0.5.
    """

    entropy: Literal["histogram", "mass"] = "histogram"
    """Of what: a histogram of the values, or magnitudes shared out over the pixels."""
    bins: int = 100
    """Number of bins of the histogram."""

    def __post_init__(self) -> None:
        if self.bins < 2:
            raise ValueError(f"bins must be at least 2, not {self.bins}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        undefined = torch.full_like(case.maps, torch.nan)
        randomised_maps = next(_maps_of_stages(case, all_layers(case.classifier, case.size), rng), undefined)
        before, after = (self._entropy(maps) for maps in (case.maps, randomised_maps))
        return ((after - before) / before).masked_fill(before == 0, torch.nan).to(case.maps.dtype)

    def _entropy(self, maps: Float[Tensor, "batch height width"]) -> Float[Tensor, " batch"]:
        if self.entropy == "mass":
            entropy: Tensor = torch.special.entr(mass(maps.double())).sum(dim=(1, 2))
            return entropy
        finite = maps.isfinite().flatten(1).all(dim=1)
        rows = [np.histogram(row, bins=self.bins)[0] for row in maps.double().nan_to_num(0, 0, 0).flatten(1).numpy()]
        shares = (torch.from_numpy(np.stack(rows)).double() / maps[0].numel()).masked_fill(~finite[:, None], torch.nan)
        histogram_entropy: Tensor = torch.special.entr(shares).sum(dim=1)
        return histogram_entropy

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The map of the randomised model."""
        return {_key(stage): explain for stage in all_layers(classifier, size)}


# Which layers -------------------------------------------------------------------------------------------------------


def cascade(classifier: Classifier, size: tuple[int, int], layers: int) -> tuple[Stage, ...]:
    """From the top layer alone to all of them, in at most `layers` even steps."""
    down = weight_layers(classifier, size)[::-1]
    return tuple(down[:count] for count in _even(len(down), layers))


def single(classifier: Classifier, size: tuple[int, int], layers: int) -> tuple[Stage, ...]:
    """One layer at a time from the top, at most `layers` evenly spaced ones."""
    down = weight_layers(classifier, size)[::-1]
    return tuple(down[count - 1 : count] for count in _even(len(down), layers))


def all_layers(classifier: Classifier, size: tuple[int, int]) -> tuple[Stage, ...]:
    """The single stage in which all layers are randomised; empty for a classifier without layers."""
    return cascade(classifier, size, 1)


def _even(count: int, most: int) -> list[int]:
    """At most `most` evenly spaced numbers from 1 to `count`, with both ends; only `count` for one number."""
    if most >= count:
        return list(range(1, count + 1))
    return [count] if most == 1 else [1 + round(place * (count - 1) / (most - 1)) for place in range(most)]


# Maps of randomised models ------------------------------------------------------------------------------------------


def _maps_of_stages(case: Case, stages: tuple[Stage, ...], rng: Rng) -> Iterator[Float[Tensor, "batch height width"]]:
    """The map of each stage, cached for all metrics of this file; only one randomised model exists at a time."""

    def compute(stage: Stage) -> Tensor:
        network = cached_per_case(case, ("randomised copy", rng), lambda: RandomisedCopy(case.classifier, rng))
        return case.explain(case.inputs, classifier=network.at(stage), rng=rng)

    for stage in stages:
        yield cached_per_case(case, (_key(stage), rng), lambda stage=stage: compute(stage))  # type: ignore[misc]


def _smoothed(case: Case, classifier: Classifier, samples: int, rng: Rng) -> Float[Tensor, "batch height width"]:
    """The mean map over noisy copies of each image; the noise is the same for every model."""
    inputs = case.inputs
    spread = NOISE * (inputs.amax(dim=(1, 2, 3), keepdim=True) - inputs.amin(dim=(1, 2, 3), keepdim=True))
    total = torch.zeros_like(case.maps)
    for copy in range(samples):
        noise = rng.child("smprt").normal(f"noise/{copy}", tuple(inputs.shape[1:])).to(inputs)
        total += case.explain(inputs + spread * noise, classifier=classifier, rng=rng.child(f"smprt/explain/{copy}"))
    return total / samples


def _likenesses(
    maps: Float[Tensor, "batch height width"], others: Iterable[Tensor], how: Likeness, magnitude: bool
) -> Float[Tensor, "batch others"]:
    """The likeness of the maps with each of the others; NaN where either is constant."""
    pattern = _pattern(maps, magnitude)
    alike, blank = likeness_to(pattern, how), is_constant(pattern)
    patterns = (_pattern(other, magnitude) for other in others)
    columns = [alike(pattern).masked_fill(blank | is_constant(pattern), torch.nan) for pattern in patterns]
    return torch.stack(columns, dim=1) if columns else maps.new_empty(len(maps), 0)


def _pattern(maps: Float[Tensor, "batch height width"], magnitude: bool) -> Float[Tensor, "batch height width"]:
    """Each map divided by its largest magnitude, because the outputs of a randomised model have another scale."""
    return (maps.abs() if magnitude else maps) / maps.abs().amax(dim=(1, 2), keepdim=True).clamp_min(
        torch.finfo(maps.dtype).tiny
    )


def _key(stage: Stage) -> tuple[str, ...]:
    return ("randomised", *(layer.name for layer in stage))
