"""Conditions: what happens to pictures, truths and labels, and that a run remembers it."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from snellen import evaluate
from snellen.errors import SnellenError
from snellen.images import apply_condition, digest, from_arrays, from_list
from snellen.images.conditions import Crop, Mixup, Resize, Rotation
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import CONDITIONS, label, spec
from snellen.types import Rng, Sample

RNG = Rng(0, ("a",), "/condition")


def picture(seed: int = 0, size: tuple[int, int] = (20, 28), channels: int = 3) -> torch.Tensor:
    levels = np.random.default_rng(seed).integers(0, 256, (channels, *size)).astype(np.uint8)
    return torch.from_numpy(levels).float() / 255


def sample(name: str = "a", *, seed: int = 0, label: int | None = 1, size: tuple[int, int] = (20, 28)) -> Sample:
    truth = torch.zeros(size, dtype=torch.bool)
    truth[2:9, 3:12] = True
    return Sample(name, picture(seed, size), label, truth)


def several(count: int = 5) -> list[Sample]:
    return [sample(f"picture-{place}", seed=place, label=place) for place in range(count)]


@pytest.mark.parametrize("degrees", [45.0, 135.0, 225.0, 315.0, 90.0, -20.0, 0.0])
@pytest.mark.parametrize("size", [(20, 28), (24, 24)], ids=str)
def test_rotation_is_that_of_pil_and_takes_the_truth_along(degrees, size):
    original = sample(size=size)
    changed = Rotation(degrees)(original, None, rng=RNG)
    levels = (original.image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    turned = np.array(Image.fromarray(levels).rotate(degrees, Image.Resampling.NEAREST, fillcolor=0))
    assert np.array_equal((changed.image * 255).round().permute(1, 2, 0).numpy(), turned)
    mask = Image.fromarray(original.truth.numpy().astype(np.uint8)).rotate(degrees, Image.Resampling.NEAREST)
    assert np.array_equal(changed.truth.numpy(), np.array(mask) > 0)
    assert (changed.id, changed.label) == ("a", 1)


def test_rotation_fills_corners_with_the_colour_that_is_named():
    changed = Rotation(45.0, fill=(0.1, 0.2, 0.3))(sample(), None, rng=RNG)
    assert changed.image[:, 0, 0].tolist() == pytest.approx([0.1, 0.2, 0.3])
    with pytest.raises(SnellenError, match="2 numbers, but 'a' has 3 channels"):
        Rotation(45.0, fill=(0.1, 0.2))(sample(), None, rng=RNG)


def test_resize_loses_detail_and_nothing_else():
    # A chequerboard of single pixels is grey at half the size, and stays grey; a plain picture stays what it is.
    board = (torch.arange(8).view(-1, 1) + torch.arange(8)) % 2
    changed = Resize(side=4)(Sample("a", board.float().expand(1, 8, 8), 2), None, rng=RNG)
    assert float((changed.image[0, 2:-2, 2:-2] - 0.5).abs().max()) < 0.05
    plain = torch.full((3, 20, 28), 0.3)
    for side in (3, 20, 64):
        same = Resize(side=side)(Sample("a", plain), None, rng=RNG)
        assert torch.allclose(same.image, plain, atol=1e-6)
    assert torch.allclose(Resize(side=20)(sample(), None, rng=RNG).image, sample().image, atol=1e-6)
    assert torch.equal(Resize(side=4)(sample(), None, rng=RNG).truth, sample().truth)


def test_crop_shows_the_window_that_was_drawn():
    place = torch.arange(32.0)
    ramp = torch.stack([place.view(-1, 1).expand(32, 32), place.expand(32, 32)]) / 31
    truth = torch.zeros(32, 32, dtype=torch.bool)
    truth[:16] = True
    original = Sample("a", torch.cat([ramp, ramp[:1]]), 0, truth)
    crop = Crop(scale=(0.2, 0.3))
    for seed in range(6):
        rng = Rng(seed, ("a",), "/condition")
        top, left, rows, columns = crop.window((32, 32), rng)
        assert 0.17 < rows * columns / 32**2 < 0.33
        assert 0.7 < columns / rows < 1.4
        cropped = crop(original, None, rng=rng)
        assert cropped.image.shape == original.image.shape
        # Enlarged, the first row and column show the window's first, the last its last.
        assert float(cropped.image[0, 0, 5]) == pytest.approx(top / 31, abs=1e-5)
        assert float(cropped.image[0, -1, 5]) == pytest.approx((top + rows - 1) / 31, abs=1e-5)
        assert float(cropped.image[1, 5, 0]) == pytest.approx(left / 31, abs=1e-5)
        assert float(cropped.image[1, 5, -1]) == pytest.approx((left + columns - 1) / 31, abs=1e-5)
        share = min(max(16 - top, 0), rows) / rows
        assert float(cropped.truth.float().mean()) == pytest.approx(share, abs=0.04)


def test_crop_draws_windows_of_every_size_and_place():
    windows = [Crop().window((100, 100), Rng(0, (f"{place}",), "/condition")) for place in range(400)]
    areas = np.array([rows * columns / 1e4 for _, _, rows, columns in windows])
    assert areas.min() < 0.13
    assert areas.max() > 0.85
    assert 0.4 < areas.mean() < 0.6
    assert all(top + rows <= 100 and left + columns <= 100 for top, left, rows, columns in windows)
    assert len({top for top, *_ in windows}) > 50


def test_crop_of_a_picture_in_which_no_window_fits_takes_its_middle():
    assert Crop(scale=(1.0, 1.0)).window((10, 100), RNG) == (0, 43, 10, 13)
    assert Crop(scale=(1.0, 1.0)).window((100, 10), RNG) == (43, 0, 13, 10)


def test_mixup_adds_pictures_and_takes_the_label_of_the_larger_share():
    own, other = sample("a", label=1), Sample("b", torch.zeros(3, 20, 28), 2, torch.zeros(20, 28, dtype=torch.bool))
    sides = set()
    for seed in range(12):
        mixed = Mixup()(own, other, rng=Rng(seed, ("a",), "/condition"))
        share = float(mixed.image.sum() / own.image.sum())
        assert torch.allclose(mixed.image, share * own.image, atol=1e-5)
        assert mixed.label == (1 if share >= 0.5 else 2)
        assert bool(mixed.truth.any()) == (share >= 0.5)
        assert mixed.id == "a"
        sides.add(share >= 0.5)
    assert sides == {True, False}


def test_mixup_takes_partners_from_the_run_never_the_picture_itself():
    samples = from_list(several(4))
    partners = set()
    for seed in range(20):
        for place, (own, other) in enumerate(apply_condition(samples, "mixup", seed=seed).source.pairs):
            assert own == place != other
            partners.add((own, other))
    assert len(partners) == 4 * 3
    with pytest.raises(SnellenError, match="there is only 'picture-0'"):
        apply_condition(from_list(several(1)), "mixup", seed=0)


@pytest.mark.parametrize("name", ["rotation", "resize(side=5)", "crop", "mixup"])
def test_a_condition_gives_the_same_samples_in_parts_and_after_pickling(name):
    samples = from_list(several(5))
    changed = apply_condition(samples, name, seed=3)
    part = pickle.loads(pickle.dumps(changed.take([4, 1])))
    assert part.ids == ("picture-4", "picture-1")
    for unpickled, place in zip(part, (4, 1), strict=True):
        assert digest(unpickled) == digest(changed[place])
        assert digest(unpickled) != digest(samples[place])
        assert float(unpickled.image.min()) >= 0
        assert float(unpickled.image.max()) <= 1
    assert [changed_sample.id for changed_sample in changed[1:3]] == ["picture-1", "picture-2"]
    assert digest(changed[1:3][1]) == digest(changed[2])


def test_digests_tell_conditions_settings_seeds_and_pictures_apart():
    samples, other = from_list(several(3)), from_list(several(4)[1:])
    seen = [
        apply_condition(of, name, seed=seed).digest(0)
        for of in (samples, other)
        for name in ("rotation", "rotation(degrees=90)", "crop", "mixup")
        for seed in (0, 1)
    ]
    assert len(set(seen)) == len(seen)
    assert not set(seen) & set(samples.digests)
    assert apply_condition(samples, "crop", seed=0).digests == apply_condition(samples, "crop", seed=0).digests


def test_seeds_change_what_is_drawn_and_nothing_else():
    samples = from_list(several(3))
    for name, moves in (("rotation", False), ("resize(side=5)", False), ("crop", True), ("mixup", True)):
        first, second = (
            torch.stack([drawn.image for drawn in apply_condition(samples, name, seed=seed)]) for seed in (0, 1)
        )
        assert torch.equal(first, second) != moves


def test_the_description_names_the_condition():
    assert (
        apply_condition(from_list(several(3)), "resize(side=32)", seed=0).describe()
        == "3 pictures from a list, under resize(side=32)"
    )


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_conditions_survive_json_and_text_and_cite_a_known_work(name):
    condition = CONDITIONS.build(name)
    assert CONDITIONS.parse(json.loads(json.dumps(spec(condition)))) == condition
    assert CONDITIONS.parse(label(condition)) == condition
    assert CONDITIONS[name].traits.cite in CITATIONS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("crop(scale=[0.5])", "scale must be two rising shares"),
        ("crop(scale=[0.5, 0.2])", "scale must be two rising shares"),
        ("mixup(alpha=0)", "alpha must be positive"),
        ("resize(side=0)", "side must be at least 1"),
        ("rotation(fill=[2])", "fill must be pixels from 0 to 1"),
        ("rotate", "did you mean 'rotation'"),
    ],
)
def test_wrong_settings_are_refused(text, sentence):
    with pytest.raises(SnellenError, match=sentence):
        CONDITIONS.parse(text)


def test_a_run_under_a_condition_sees_changed_pictures_and_remembers_it(tmp_path):
    def brightest(inputs):
        return inputs[:, :, :4, :4].mean(dim=(2, 3))  # looks at the corner, which a rotation turns black

    images = np.stack([picture(place, (16, 16)).numpy() for place in range(4)])
    facts = {"methods": ["random"], "metrics": ["complexity"], "target": "label"}
    samples = from_arrays(images, labels=[0, 1, 2, 0])
    plain = evaluate(brightest, samples, **facts, out=tmp_path / "plain")
    turned = evaluate(brightest, samples, **facts, condition="rotation(degrees=45)", out=tmp_path / "turned")
    assert plain.record.spec.condition is None
    assert turned.record.spec.condition == "rotation"
    assert "under rotation" in turned.record.samples.source
    chances = [[row.probability for row in run.record.samples.rows] for run in (plain, turned)]
    assert all(not math.isclose(chance, other) for chance, other in zip(*chances, strict=True))
    evaluate(brightest, samples, **facts, condition=Rotation(45.0), out=tmp_path / "turned")  # the same again
    for other in (None, "rotation(degrees=135)"):
        with pytest.raises(SnellenError, match="was made with another condition"):
            evaluate(brightest, samples, **facts, condition=other, out=tmp_path / "turned")
