"""Which plug-ins of Snellen must fail which check, and why; each reason is printed on the plug-in's page."""

from __future__ import annotations

_CONTROL = "a control holds no information about the classifier"
_UNCALLED = "a control never calls the model, so an error of the model does not reach it"
_SIGNED_LAYER = "after layer normalisation features have both signs, but the method is made for a layer after a ReLU"
_AVERAGED = "equal pixels are averaged over all their orders, so no order is ever drawn"
_RANKS = "by default it compares the ranks of magnitudes, and a map without negative values has no more than those"
_SAME_VARIANTS = "the planted stand-ins for its two variants are the same network; its own tests have two"

EXEMPTIONS: dict[tuple[str, str], str] = {
    **{(name, "finds-planted-patch"): _CONTROL for name in ("random", "fake-cam", "centre", "constant")},
    ("shuffled", "finds-planted-patch"): "it destroys the positions on purpose",
    **{(name, "model-unchanged-after-error"): _UNCALLED for name in ("random", "edge", "fake-cam", "centre", "constant")},
    ("deconvnet", "finds-planted-patch/resnet"): (
        "without max-pooling the map is the same for every image (springenberg2015)"
    ),
    ("grad-cam++", "finds-planted-patch/vit"): _SIGNED_LAYER,
    ("xgrad-cam", "finds-planted-patch/vit"): _SIGNED_LAYER,
    ("ablation-cam", "finds-planted-patch/vit"): _SIGNED_LAYER,
    ("eigen-cam", "finds-planted-patch/vit"): _SIGNED_LAYER,
    ("guided-ig", "complete"): "its maps are complete on these small networks, but not on pretrained ones",
    ("stability", "ties"): "equal pixels share their mean rank, and a map of nothing but equal pixels is undefined",
    ("target-sensitivity", "planned-passes"): (
        "the right class is explained only where it is known and is not the target, so the planned passes are an upper bound"
    ),
    **{(name, "ties"): _AVERAGED for name in ("localisation-utility", "mean-iou", "relevance-rank", "plausibility")},
    **{
        (name, "not-rank-only"): _RANKS
        for name in ("cascading-randomisation", "independent-randomisation", "weight-randomisation", "model-consistency")
    },
    (
        "roar",
        "ties",
    ): "its score counts models that classify correctly, so two orders of equal pixels may have the same score",
    ("model-contrast", "direction"): _SAME_VARIANTS,
    ("model-contrast", "twin"): _SAME_VARIANTS,
    (
        "model-contrast",
        "not-rank-only",
    ): "it explains images with an inserted object again and does not use the maps of the case",
    ("pointing-game", "ties"): "equal maxima are averaged, so no order among them is ever needed",
    ("average-increase", "not-rank-only"): "it has only two values, and those of the planted maps happen to be equal",
    ("road", "ties"): "a share of seven fractions has eight values, so that two orders may well agree",
    ("effective-complexity-count", "not-rank-only"): (
        "the other values that the check uses move no pixel of the planted maps across the threshold"
    ),
    ("monotonicity-correlation", "not-rank-only"): (
        "of a positive map it uses only the ranks of magnitudes; of other maps also the signs"
    ),
}
"""(plug-in, check) to the reason; a check whose name ends with a kind of network is exempt on that network only."""


def exemption(plugin: str, check: str) -> str | None:
    """Why the plug-in must fail this check, or None where it must pass."""
    return EXEMPTIONS.get((plugin, check)) or EXEMPTIONS.get((plugin, check.partition("/")[0]))


def exemptions_of(plugin: str) -> dict[str, str]:
    """The checks that a plug-in is exempt from, with the reasons."""
    return {check: reason for (name, check), reason in EXEMPTIONS.items() if name == plugin}
