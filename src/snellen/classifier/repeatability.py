"""Repeatability: whether a classifier gives the same outputs for an image every time, alone or in a batch."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import Classifier

TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}
"""Share of the range of all outputs that is rounding; active dropout and batch statistics change outputs far more."""

REPEATS = 3
"""Passes of the same batch that are compared; with little dropout, two passes may agree by chance."""


def repeatability_warnings(classifier: Classifier, pixels: Float[Tensor, "channels height width"]) -> list[str]:
    """A sentence for each way in which the outputs for this image depend on more than the image; empty for most models."""
    batch = classifier.to_inputs(torch.stack([pixels, 1 - pixels, pixels.flip(-1), 0.5 * pixels]))
    try:
        classifier.logits(batch)
    except Exception:  # perhaps the model takes one image at a time
        batch = batch[:1]
    before = _state(classifier)
    outputs = [classifier.logits(batch) for _ in range(REPEATS)]
    alone = classifier.logits(batch[:1])
    after = _state(classifier)

    spread = float(outputs[0].max() - outputs[0].min())
    rounding = TOLERANCE[classifier.precision] * spread + 1e-5 * float(outputs[0].abs().max())
    repeat_gap = max(float((outputs[0] - repeat).abs().max()) for repeat in outputs[1:])
    single_gap = float((outputs[0][:1] - alone).abs().max())
    sentences = []
    if repeat_gap > rounding:
        sentences.append(
            f"'{classifier.name}' is not repeatable: the same images give outputs that differ by up to {repeat_gap:.2g}, "
            f"where all outputs span {spread:.2g} (dropout or other randomness, active even in evaluation mode), so no map "
            "or score of this run can be repeated exactly"
        )
    elif single_gap > rounding:
        sentences.append(
            f"'{classifier.name}' mixes the images of a batch: an image alone gives outputs that differ by up to "
            f"{single_gap:.2g} from those of the same image in a batch, where all outputs span {spread:.2g} (batch "
            "statistics, active even in evaluation mode), so maps and scores depend on which images are computed together; "
            "--batch 1 avoids that"
        )
    if changed := [name for name, version in before.items() if after.get(name) != version]:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        sentences.append(
            f"'{classifier.name}' changes its own state with every pass ('{changed[0]}'{more}), so maps and scores may "
            "depend on what was computed before"
        )
    return sentences


def _state(classifier: Classifier) -> dict[str, tuple[int, int]]:
    """The identity and version of each parameter and buffer, which change when it is replaced or written to."""
    run = classifier.network.run
    tensors = run.state_dict(keep_vars=True) if isinstance(run, nn.Module) else {}
    return {name: (id(tensor), tensor._version) for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
