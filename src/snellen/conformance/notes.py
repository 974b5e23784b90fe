"""What is known of the crosses: why a neighbour's number differs, found by reading and running the version in the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """One reason behind one toolkit's crosses; shown only where a cross appears."""

    toolkit: str
    cases: tuple[str, ...]
    text: str


_CONSTANT = ("max-sensitivity/constant", "avg-sensitivity/constant", "complexity/constant", "sparseness/constant",
             "plausibility/constant", "relevance-mass/constant", "energy-pointing-game/constant")  # fmt: skip

NOTES: tuple[Note, ...] = (
    Note("grad-cam", ("average-drop/value",),
         "`DropInConfidence` is the plain difference of confidences; Chattopadhay et al. 2018 divide it by the first."),
    Note("torchcam", ("deletion/ties", "insertion/ties"),
         "equal pixels go in the order in which memory holds them, so a flat map is scored by where the object lies."),
    Note("quantus", _CONSTANT, "a batch of constant maps is refused on purpose, though these scores are defined for them."),
    Note("quantus", ("deletion/value", "deletion/last", "deletion/perfect", "deletion/sign"),
         "the curve of `PixelFlipping` begins after the first step and its area is not divided by the number of steps."),
    Note("quantus", ("deletion/channels",),
         "`PixelFlipping` flips the channels of a pixel one at a time: 48 steps for 16 pixels in colour."),
    Note("quantus", ("completeness/rounding",), "`Completeness` compares sums of floats with `==`."),
    Note("quantus", ("completeness/channels",), "with one map for three channels only the first channel is removed."),
    Note("quantus", ("monotonicity/direction",),
         "`Monotonicity` fills the baseline with the baseline: it is True for every map and for its negative."),
    Note("quantus", ("monotonicity-correlation/zero",),
         "`MonotonicityCorrelation` raises when the output is near 0 for some samples of a batch."),
    Note("quantus", ("infidelity/independent",), "the squares pile up; the last one removes what was left."),
    Note("quantus", ("infidelity/odd",), "`Infidelity` raises where the square does not divide the picture."),
    Note("quantus", ("cascading-randomisation/turned", "independent-randomisation/turned"),
         "the mean over stages counts the model itself, under the name `original`, as a stage with a likeness of 1."),
    Note("quantus", ("input-invariance/kept",),
         "the first pixel is not shifted with the others, so the shifted model sees another picture."),
    Note("quantus", ("road/batch",), "the score of `ROAD` is that of the first batch."),
    Note("quantus", ("road/channels",), "`ROAD` raises on pictures in colour."),
    Note("quantus", ("effective-complexity-count/neighbour",),
         "`normalise=True` divides by the maximum of the whole batch, so one loud map silences its neighbours."),
    Note("quantus", ("energy-pointing-game/weighted",),
         "the size of the picture is taken from `x_batch[2:]`, all samples from the third on."),
    Note("quantus", ("pointing-game/weighted",), "`weighted=True` raises."),
    Note("quantus", ("sparseness/zero",),
         "a small constant is added to every pixel, so a map that says nothing is evenly spread rather than undefined."),
    Note("quantus", ("deletion/ties", "relevance-rank/ties", "relevance-rank/fake-cam"),
         "equal pixels go in the order in which the sort leaves them."),
    Note("quantus", ("pointing-game/empty",),
         "NaN is written into an array of truth values and becomes True: a picture without an object counts as a hit."),
    Note("quantus", ("pointing-game/ties", "pointing-game/fake-cam"),
         "one maximal pixel on the object is enough, so a constant map hits."),
    Note("quantus", ("complexity/unmodified", "sparseness/unmodified"),
         "with `abs=False, normalise=False` the caller's own array is changed."),
)  # fmt: skip
