"""Controls that are made of another method's map, and the one that is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from snellen.errors import SnellenError
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.types import Method


def pair(text: str, inner: str) -> tuple[torch.Tensor, torch.Tensor]:
    case = planted_batch(3)
    return tuple(
        METHODS.parse(notation)(case.classifier, case.inputs, case.targets, rng=case.rng) for notation in (text, inner)
    )  # type: ignore[return-value]


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("inner", ["gradient", "input-x-gradient"])
def test_blurred_is_a_gaussian_filter_of_the_map_inside(inner: str, sigma: float) -> None:
    blurred, sharp = pair(f"blurred(of={inner}, sigma={sigma})", inner)
    expected = np.stack(
        [gaussian_filter(saliency, sigma * 24, mode="nearest", radius=int(np.ceil(4 * sigma * 24))) for saliency in sharp]
    )
    torch.testing.assert_close(blurred, torch.from_numpy(expected), rtol=1e-4, atol=1e-5 * float(sharp.abs().max()))


@pytest.mark.parametrize("inner", ["gradient", "input-x-gradient", "random"])
def test_shuffled_keeps_the_histogram_and_moves_the_pixels(inner: str) -> None:
    shuffled, sharp = pair(f"shuffled(of={inner})", inner)
    assert torch.equal(shuffled.flatten(1).sort(dim=1).values, sharp.flatten(1).sort(dim=1).values)
    for moved_map, sharp_map in zip(shuffled, sharp, strict=True):
        assert not torch.equal(moved_map, sharp_map)
    moved = shuffled.flatten(1)
    assert not torch.equal(moved[0].argsort(stable=True), moved[1].argsort(stable=True))


@pytest.mark.parametrize("metric", ["random-logit", "cascading-randomisation"])
def test_shuffled_follows_neither_class_nor_model(tmp_path: Path, metric: str) -> None:
    """It keeps one order of pixels, so where the map inside turns over it stays as like itself as a map of nothing does."""
    settings = {
        "model": "digits",
        "images": "zoo:digits",
        "methods": ["gradient", "shuffled", "random"],
        "metrics": [metric],
    }
    likeness = Settings.of({**settings, "out": str(tmp_path)}).run(Silent()).table()[metric]
    assert likeness["random"] == pytest.approx(1)
    assert likeness["shuffled"] > 0.9
    assert likeness["gradient"] < 0.8


def test_shuffled_spreads_a_patch_evenly() -> None:
    case = planted_batch(30)
    method = METHODS.build("shuffled")
    maps = method(case.classifier, case.inputs, case.targets, rng=case.rng)
    share = ((maps * case.truth).sum(dim=(1, 2)) / maps.sum(dim=(1, 2))).mean()
    # 64 of 576 pixels; the mean over 30 maps has a standard error of about 0.007.
    assert abs(float(share) - 64 / 576) < 0.03


def test_constant_has_one_value() -> None:
    case = planted_batch(3)
    maps = METHODS.build("constant")(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert maps.unique().tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "needs", "signed", "deterministic", "class_specific"),
    [
        ("blurred(of=input-x-gradient)", {"gradients"}, True, True, True),
        ("blurred(of=rise(masks=4))", set(), False, False, True),
        ("shuffled(of=grad-cam)", {"gradients", "layer"}, False, False, True),
        ("shuffled(of=centre)", set(), False, False, False),
        ("blurred(of=shuffled(of=guided-backprop))", {"gradients", "relu"}, False, False, True),
    ],
)
def test_traits_follow_the_wrapped_method(
    text: str, needs: set[str], signed: bool, deterministic: bool, class_specific: bool
) -> None:
    built: Method = METHODS.parse(text)
    facts = traits(built)
    assert facts.control
    assert (facts.needs, facts.signed, facts.deterministic) == (needs, signed, deterministic)
    assert facts.class_specific == class_specific
    assert METHODS.parse(label(built)) == built


def test_what_the_wrapped_method_refuses_is_refused() -> None:
    case = planted_batch(3, kind="vit")
    for text in ("blurred(of=guided-backprop)", "shuffled(of=guided-backprop)"):
        with pytest.raises(SnellenError, match=r"guided-backprop cannot pass through gelu at blocks\.0\.mlp\.1"):
            METHODS.parse(text).prepare(case.classifier, case.inputs)  # type: ignore[attr-defined]


def test_a_blur_needs_a_width() -> None:
    with pytest.raises(SnellenError, match=r"method 'blurred': sigma must be positive, not 0\.0"):
        METHODS.parse("blurred(sigma=0)")
