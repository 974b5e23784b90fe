"""Why values of other toolkits differ: reasons found by reading and running the versions in the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """The reason for wrong values or errors of a toolkit; printed only if one of the cases fails."""

    toolkit: str
    cases: tuple[str, ...]
    """Their ids."""
    text: str


_CONSTANT = ("max-sensitivity/constant", "avg-sensitivity/constant", "complexity/constant", "sparseness/constant",
             "plausibility/constant", "relevance-mass/constant", "energy-pointing-game/constant")  # fmt: skip

NOTES: tuple[Note, ...] = (
    Note("grad-cam", ("average-drop/value", "average-drop/label"),
         "`DropInConfidence` is the plain difference of confidences; Chattopadhay et al. 2018 divide it by the first."),
    Note("torchcam", ("deletion/ties", "insertion/ties"),
         "equal pixels are removed in memory order, so the score of a constant map depends on where the object is."),
    Note("quantus", _CONSTANT, "a batch of constant maps is refused on purpose, though their scores are defined."),
    Note("quantus", ("completeness/rounding",), "`Completeness` compares sums of floats with `==`."),
    Note("quantus", ("monotonicity/direction",),
         "`Monotonicity` fills the baseline with the baseline: it is True for every map and for its negative."),
    Note("quantus", ("monotonicity-correlation/zero",),
         "`MonotonicityCorrelation` raises when the output is near 0 for some samples of a batch."),
    Note("quantus", ("infidelity/independent",), "the squares accumulate; the last one removes what was left."),
    Note("quantus", ("infidelity/odd",), "`Infidelity` raises where the square does not divide the image."),
    Note("quantus", ("cascading-randomisation/turned", "independent-randomisation/turned"),
         "the mean over stages is to skip `orig`, but the model itself is stored as `original` and counts as a stage."),
    Note("quantus", ("input-invariance/kept",),
         "the first pixel is not shifted with the others, so the shifted model sees another image."),
    Note("quantus", ("road/batch",), "the score of `ROAD` is that of the first batch."),
    Note("quantus", ("road/channels",), "`ROAD` raises on images in colour."),
    Note("quantus", ("energy-pointing-game/weighted",),
         "the size of the image is taken from `x_batch[2:]`, all samples from the third on."),
    Note("quantus", ("pointing-game/weighted",), "`weighted=True` raises."),
    Note("quantus", ("sparseness/zero",),
         "a small constant is added to every pixel, so an empty map counts as evenly spread instead of undefined."),
    Note("quantus", ("deletion/ties", "relevance-rank/ties", "relevance-rank/fake-cam"),
         "equal pixels are taken in the order in which the sort returns them."),
    Note("quantus", ("pointing-game/empty",),
         "NaN is written into an array of truth values and becomes True: an image without an object counts as a hit."),
    Note("quantus", ("pointing-game/ties", "pointing-game/fake-cam"),
         "one maximal pixel on the object is enough, so a constant map hits."),
    Note("quantus", ("complexity/unmodified", "sparseness/unmodified"),
         "with `abs=False, normalise=False` the caller's own array is changed."),
)  # fmt: skip


SETTINGS: dict[str, tuple[str, ...]] = {
    "captum": (
        "`infidelity` gets the map shared out over the channels, and perturbations of 1 where a square is removed, so that "
        "attributions are contributions.",
    ),
    "grad-cam": (
        "maps are masks in [0, 1] and targets are probabilities, as its tutorial on metrics has it; for independent "
        "labels, a function that takes the sigmoid.",
    ),
    "torchcam": (
        "one update and one summary per batch; maps are masks in [0, 1] for average drop and increase; "
        "`logits_fn` is the sigmoid for independent labels.",
    ),
    "quantus": (
        "`abs=False, normalise=False` where the quantity is about the map as it is, `abs=True` for magnitudes.",
        "For independent labels, where its softmax would be wrong, the model ends in a sigmoid and `softmax=False`.",
        "Deletion is read off the curve of `PixelFlipping`, which is right: the output for the untouched image is put "
        "before it, points at which only some channels of a pixel are gone are left out, and the area is over steps from 0 "
        "to 1. Its own `return_auc_per_sample` begins after the first flip and counts a step as 1.",
        "`Completeness` gets the map shared out over the channels; of one map for three channels it removes the first only.",
        "`EffectiveComplexity` normalises with `normalise_axes=(1, 2, 3)`, each map by its own maximum; the default of "
        "`normalise=True` is the maximum of the whole batch.",
    ),
}
"""By toolkit, the settings and steps that make its metric the same quantity as ours."""
