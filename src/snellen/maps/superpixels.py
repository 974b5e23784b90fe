"""Superpixels: regions of an image that are removed together, and the outputs for images without some of them."""

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
from snellen.types import Images, Output

Segmentation = Literal["quickshift", "quickshift-inputs", "slic", "grid"]
"""How an image is divided: by colour and position (quickshift as in lime, slic as in shap) or in squares.

`quickshift-inputs` uses normalised inputs as colours, as much published code does.
"""

CACHED_IMAGES = 128
"""Number of images whose superpixels are cached, so that they are computed once for all methods of a run."""

CELLS = 7
"""Squares per side of the grid."""
PUBLISHED_SIDE = 224
"""The image side for which lime and shap chose their settings; smaller images get smaller kernels."""

_cache: OrderedDict[bytes, Int[Tensor, "height width"]] = OrderedDict()
_lock = threading.Lock()


def superpixels(classifier: Classifier, inputs: Images, how: Segmentation) -> Int[Tensor, "batch height width"]:
    """The number of each pixel's superpixel, counted from 0 in every image.

    Args:
        classifier: converts inputs to colours.
        inputs: the images.
        how: the algorithm, and the colours that it sees.
    """
    colours = (inputs if how == "quickshift-inputs" else classifier.to_pixels(inputs)).detach().cpu()
    if colours.shape[1] != 3:
        colours = colours.mean(dim=1, keepdim=True).expand(-1, 3, -1, -1)
    images = [image.permute(1, 2, 0).contiguous().numpy() for image in colours]
    keys = [
        hashlib.blake2b(image.tobytes(), digest_size=16, key=f"{how} {image.shape}".encode()).digest() for image in images
    ]
    with _lock:
        regions = {key: _cache[key] for key in keys if key in _cache}
    missing = {key: image for key, image in zip(keys, images, strict=True) if key not in regions}
    if missing:
        with ThreadPoolExecutor(min(len(missing), os.cpu_count() or 1)) as threads:
            regions.update(zip(missing, threads.map(lambda image: _segment(image, how), missing.values()), strict=True))
    with _lock:
        for key in keys:
            _cache[key] = regions[key]
            _cache.move_to_end(key)
        while len(_cache) > CACHED_IMAGES:
            _cache.popitem(last=False)
    return torch.stack([regions[key] for key in keys]).to(inputs.device, torch.long)


def superpixel_outputs(
    classifier: Classifier,
    inputs: Images,
    targets: Int[Tensor, " batch"],
    labels: Int[Tensor, "batch height width"],
    selections: Sequence[Bool[Tensor, "_ _"]],
    *,
    start: Images,
    of: Output,
) -> list[Float[Tensor, " _"]]:
    """The target's output for each image and each choice of superpixels.

    Args:
        classifier: the model.
        inputs: the images.
        targets: the target class of each image.
        labels: the superpixel of each pixel.
        selections: for each image a row per choice, True for superpixels that stay.
        start: what replaces the other superpixels.
        of: which output of the target.
    """
    rows = classifier.rows_for(inputs)

    def blocks() -> Iterator[tuple[Tensor, Tensor]]:
        free_rows = rows  # blocks end where passes end, so that regrouping copies nothing
        for image, fill, target, label, choices in zip(inputs, start, targets, labels, selections, strict=True):
            first = 0
            while first < len(choices):
                part = choices[first : first + free_rows].to(inputs.device)
                stays = part.index_select(1, label.flatten()).view(len(part), 1, *label.shape)
                yield torch.lerp(fill, image, stays.to(image)), target.expand(len(part))
                first += len(part)
                free_rows = free_rows - len(part) or rows

    sizes = [len(choices) for choices in selections]
    if not sum(sizes):
        return [inputs.new_empty(0) for _ in selections]
    return list(classifier.scores(blocks(), of=of).split(sizes))


def pad_blocks(blocks: Sequence[Tensor], shape: tuple[int, ...]) -> Float[Tensor, "batch ..."]:
    """Blocks of different sizes as one batch in double precision, padded with zeros."""
    batch = torch.zeros(len(blocks), *shape, dtype=torch.float64, device=blocks[0].device)
    for row, block in zip(batch, blocks, strict=True):
        row[tuple(slice(size) for size in block.shape)] = block
    return batch


def squares(height: int, width: int, cells: int = CELLS) -> Int[Tensor, "height width"]:
    """The number of each pixel's square in a grid of `cells` by `cells`, row by row; at most one square per pixel.

    Squares differ by a pixel where the sides are not divisible.

    >>> squares(2, 3, 2).tolist()
    [[0, 0, 1], [2, 2, 3]]
    """
    rows, columns = min(cells, height), min(cells, width)
    down, right = torch.arange(height) * rows // height, torch.arange(width) * columns // width
    return down[:, None] * columns + right


def _segment(image: Float[np.ndarray, "height width 3"], how: Segmentation) -> Int[Tensor, "height width"]:
    from skimage.segmentation import quickshift, slic  # importing it takes half a second

    height, width = image.shape[:2]
    shrink = min(1.0, min(height, width) / PUBLISHED_SIDE)
    if how == "grid":
        return squares(height, width)
    if how == "slic":
        labels = slic(image.astype(np.float64), n_segments=50, compactness=30, sigma=3 * shrink, start_label=0)
    else:
        labels = quickshift(image.astype(np.float64), kernel_size=max(1.0, 4 * shrink), max_dist=200, ratio=0.2)
    return torch.from_numpy(labels.astype(np.int32))
