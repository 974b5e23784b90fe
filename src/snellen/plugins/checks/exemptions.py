"""Which plug-ins of Snellen must fail which check, and why; each reason is printed on the plug-in's page."""

from __future__ import annotations

_CONTROL = "a control holds no information about the classifier"
_UNCALLED = "a control never calls the model, so it cannot fail with it"
_SIGNED_LAYER = "behind layer normalisation features have both signs, and the method is made for a layer behind a ReLU"
_AVERAGED = "equal pixels are averaged over all their orders, so no order is ever drawn"
_RANKS = "by default it compares the ranks of magnitudes; of a map without negative values those are all it sees"
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
        "the right class is only explained where it is known and not the target, so the plan is the most that it can cost"
    ),
    **{(name, "ties"): _AVERAGED for name in ("localisation-utility", "mean-iou", "relevance-rank", "plausibility")},
    **{
        (name, "not-rank-only"): _RANKS
        for name in ("cascading-randomisation", "independent-randomisation", "weight-randomisation", "model-consistency")
    },
    ("roar", "ties"): "its score counts models that are right, so two orders of equal pixels may well have the same score",
    ("model-contrast", "direction"): _SAME_VARIANTS,
    ("model-contrast", "twin"): _SAME_VARIANTS,
    (
        "model-contrast",
        "not-rank-only",
    ): "it explains images with an object in them again, so the maps of the case do not enter",
    ("pointing-game", "ties"): "equal maxima are averaged, so no order among them is ever needed",
    ("average-increase", "not-rank-only"): "it has two values only, and the planted ones happen to agree",
    ("road", "ties"): "a share of seven fractions has eight values, so that two orders may well agree",
    ("effective-complexity-count", "not-rank-only"): "bending a map moves no pixel of these across the threshold",
    ("monotonicity-correlation", "not-rank-only"): (
        "ranks of magnitudes are all it sees of a positive map; signs matter too"
    ),
}
"""(plug-in, check) to the reason; a check with the kind of a network behind it is exempt on that network alone."""


def exemption(plugin: str, check: str) -> str | None:
    """Why the plug-in must fail this check, or None where it must pass."""
    return EXEMPTIONS.get((plugin, check)) or EXEMPTIONS.get((plugin, check.partition("/")[0]))


def exemptions_of(plugin: str) -> dict[str, str]:
    """The checks that a plug-in is exempt from, with the reasons."""
    return {check: reason for (name, check), reason in EXEMPTIONS.items() if name == plugin}
