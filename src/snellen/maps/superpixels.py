"""Superpixels: regions of an image that are removed or kept as one, and the classifier's answer to each choice of them."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.types import Output

Images = Float[Tensor, "batch channels height width"]

Segmentation = Literal["quickshift", "quickshift-inputs", "slic", "grid"]
"""How an image is cut: by colour and place (quickshift as in the lime package, slic as in the shap package), or in squares.

`quickshift-inputs` takes the network's normalised inputs for colours, as much published code does.
"""

KEPT = 128
"""Images whose superpixels are remembered, so that methods of one run cut the same images once."""

CELLS = 7
PUBLISHED_SIDE = 224
"""The side that the packages' settings were made for; smaller images get smaller kernels, or nothing would be cut."""

_known: OrderedDict[bytes, Int[Tensor, "height width"]] = OrderedDict()
_lock = threading.Lock()


def superpixels(classifier: Classifier, inputs: Images, how: Segmentation) -> Int[Tensor, "batch height width"]:
    """The number of each pixel's superpixel, from 0 without gaps in every image."""
    colours = (inputs if how == "quickshift-inputs" else classifier.to_pixels(inputs)).detach().cpu()
    if colours.shape[1] != 3:
        colours = colours.mean(dim=1, keepdim=True).expand(-1, 3, -1, -1)
    pictures = [colour.permute(1, 2, 0).contiguous().numpy() for colour in colours]
    keys = [hashlib.blake2b(one.tobytes(), digest_size=16, key=f"{how} {one.shape}".encode()).digest() for one in pictures]
    with _lock:
        found = {key: _known[key] for key in keys if key in _known}
    missing = {key: picture for key, picture in zip(keys, pictures, strict=True) if key not in found}
    if missing:
        with ThreadPoolExecutor(min(len(missing), os.cpu_count() or 1)) as threads:
            found.update(zip(missing, threads.map(lambda picture: _cut(picture, how), missing.values()), strict=True))
    with _lock:
        for key in keys:
            _known[key] = found[key]
            _known.move_to_end(key)
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return torch.stack([found[key] for key in keys]).to(inputs.device, torch.long)


def superpixel_outputs(
    classifier: Classifier,
    inputs: Images,
    targets: Int[Tensor, " batch"],
    labels: Int[Tensor, "batch height width"],
    kept: Sequence[Bool[Tensor, "_ _"]],
    *,
    start: Images,
    of: Output,
) -> list[Float[Tensor, " _"]]:
    """The target's output for each image and each choice of superpixels that stay; `start` stands where the others were."""
    rows = classifier.rows_for(inputs)

    def blocks() -> Iterator[tuple[Tensor, Tensor]]:
        room = rows  # blocks end where passes end, so that nothing is copied to regroup them
        for image, fill, target, label, choices in zip(inputs, start, targets, labels, kept, strict=True):
            first = 0
            while first < len(choices):
                some = choices[first : first + room].to(inputs.device)
                seen = some.index_select(1, label.flatten()).view(len(some), 1, *label.shape)
                yield torch.where(seen, image, fill), target.expand(len(some))
                first += len(some)
                room = room - len(some) or rows

    sizes = [len(choices) for choices in kept]
    if not sum(sizes):
        return [inputs.new_empty(0) for _ in kept]
    return list(classifier.scores(blocks(), of=of).split(sizes))


def pad_blocks(blocks: Sequence[Tensor], shape: tuple[int, ...]) -> Float[Tensor, "batch ..."]:
    """Blocks of several sizes as one batch in double precision, with zeros where a block ends."""
    batch = torch.zeros(len(blocks), *shape, dtype=torch.float64, device=blocks[0].device)
    for row, block in zip(batch, blocks, strict=True):
        row[tuple(slice(size) for size in block.shape)] = block
    return batch


def squares(height: int, width: int, cells: int = CELLS) -> Int[Tensor, "height width"]:
    """The number of each pixel's square in a grid of `cells` by `cells`, or of single pixels where there are fewer."""
    rows, columns = min(cells, height), min(cells, width)
    down, right = torch.arange(height) * rows // height, torch.arange(width) * columns // width
    return down[:, None] * columns + right


def _cut(picture: Float[np.ndarray, "height width 3"], how: Segmentation) -> Int[Tensor, "height width"]:
    from skimage.segmentation import quickshift, slic  # half a second that only those who cut should pay

    height, width = picture.shape[:2]
    shrink = min(1.0, min(height, width) / PUBLISHED_SIDE)
    if how == "grid":
        return squares(height, width)
    if how == "slic":
        labels = slic(picture.astype(np.float64), n_segments=50, compactness=30, sigma=3 * shrink, start_label=0)
    else:
        labels = quickshift(picture.astype(np.float64), kernel_size=max(1.0, 4 * shrink), max_dist=200, ratio=0.2)
    return torch.from_numpy(labels.astype(np.int32))
