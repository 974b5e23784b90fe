"""Scenes: what they show, that nothing overlaps, that a scene depends on its seed and index alone."""

from __future__ import annotations

import hashlib
import importlib.util
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from snellen.errors import SnellenError
from snellen.textbox.scenes.backgrounds import (
    BACKGROUNDS,
    ColourBackground,
    NoiseBackground,
    PhotoBackground,
    TextureBackground,
    find_background,
)
from snellen.textbox.scenes.noise import fractions, keys_of, shorts
from snellen.textbox.scenes.objects import OBJECTS, TEXT, box, bucket_contents
from snellen.textbox.scenes.scenes import SceneBatch, SceneLayout


def some(layout: SceneLayout, each: int = 40, seed: int = 3) -> SceneBatch:
    numbers = torch.arange(1, layout.buckets + 1).repeat_interleave(each)
    return layout.scenes(numbers, range(len(numbers)), seed=seed)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_what_a_bucket_says_is_shown_and_nothing_else(name: str) -> None:
    layout = SceneLayout(background=find_background(name))
    batch = some(layout)
    assert batch.pixels.shape == (480, 3, 64, 64)
    for i, shown in enumerate(list(bucket_contents(OBJECTS))):
        for number, item in enumerate(OBJECTS):
            kind = shown[item.name]
            for row in range(40 * i, 40 * i + 40):
                ink, (top, left, bottom, right) = batch.ink[row, number], batch.boxes[row, number].tolist()
                if kind is None:
                    assert not ink.any()
                    assert (top, left, bottom, right) == (0, 0, 0, 0)
                else:
                    expected = item.masks[item.kinds.index(kind)]
                    assert np.array_equal(ink[top:bottom, left:right].numpy(), expected)
                    assert int(ink.sum()) == expected.sum()
    drawn = batch.ink.any(dim=1)[:, None].expand(-1, 3, -1, -1)
    assert bool((batch.pixels[drawn] == 255).all())
    assert int(batch.pixels[~drawn].max()) <= (0 if name == "black" else 180)
    assert torch.equal(batch.regions().sum(dim=(2, 3)), (batch.boxes[..., 2:] - batch.boxes[..., :2]).prod(dim=2))


def test_sizes_of_the_published_objects() -> None:
    batch = some(SceneLayout(), each=1)
    assert batch.regions()[-1].sum(dim=(1, 2)).tolist() == [13 * 15, 4 * 4, 10 * 10]


def test_no_two_rectangles_overlap_not_even_of_objects_that_are_not_shown() -> None:
    whole = SceneLayout().scenes([12] * 3000, range(3000), seed=0)
    regions = whole.regions()
    assert int(regions.sum(dim=1).max()) == 1
    none = SceneLayout().scenes([1] * 3000, range(3000), seed=0)
    assert not none.ink.any()
    for item, other in combinations(range(3), 2):  # places of all sorts occur: above, below, left, right
        between = whole.boxes[:, item, :2] - whole.boxes[:, other, :2]
        assert bool((between > 20).any(dim=0).all())
        assert bool((between < -20).any(dim=0).all())


def test_places_reach_every_border_evenly() -> None:
    boxes = SceneLayout().scenes([12] * 20000, range(20000), seed=1).boxes
    for number, item in enumerate(OBJECTS):
        for axis in (0, 1):
            corners = boxes[:, number, axis]
            last = 64 - item.size[axis]
            assert (int(corners.min()), int(corners.max())) == (0, last)
            assert abs(float(corners.double().mean()) - last / 2) < 0.05 * last


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_a_scene_depends_on_seed_and_index_alone(name: str) -> None:
    layout = SceneLayout(background=find_background(name))
    whole = layout.scenes([12, 5, 7, 1], [0, 1, 2, 3], seed=8)
    alone = layout.scenes([7], [2], seed=8)
    assert torch.equal(alone.pixels[0], whole.pixels[2])
    assert torch.equal(alone.boxes[0], whole.boxes[2])
    other = layout.scenes([12], [0], seed=9)
    assert not torch.equal(other.pixels[0], whole.pixels[0])


@pytest.mark.parametrize(
    ("name", "checksum"),
    [
        ("black", "e23ac22750a7ae2f"),
        ("noise", "8bd17ca8f393f1b0"),
        ("photos", "95a7718ba541b353"),
        ("colour", "a5a155c7d50558f2"),
    ],
)
def test_scenes_stay_as_they_are_for_ever(name: str, checksum: str) -> None:
    """Exams are made anew from seed and index: scores of different versions are about the same pictures."""
    numbers, indices = torch.arange(1, 13).repeat(4), torch.arange(4).repeat_interleave(12) * 7
    pixels = SceneLayout(background=find_background(name)).scenes(numbers, indices, seed=5).pixels
    assert hashlib.sha256(pixels.contiguous().numpy().tobytes()).hexdigest()[:16] == checksum


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_the_batch_does_not_matter(name: str) -> None:
    layout = SceneLayout(side=51, background=find_background(name))  # an odd side: rows do not fill the processor's vectors
    numbers, indices = torch.arange(60) % 12 + 1, torch.arange(60) // 7 * 10**9
    whole = layout.scenes(numbers, indices, seed=6)
    for size in (1, 2, 23):
        parts = [layout.scenes(*pair, seed=6) for pair in zip(numbers.split(size), indices.split(size), strict=True)]
        assert torch.equal(torch.cat([part.pixels for part in parts]), whole.pixels)
        assert torch.equal(torch.cat([part.ink for part in parts]), whole.ink)
        assert torch.equal(torch.cat([part.boxes for part in parts]), whole.boxes)


@pytest.mark.parametrize("name", BACKGROUNDS)
def test_two_buckets_of_one_scene_differ_in_one_thing_only(name: str) -> None:
    layout = SceneLayout(background=find_background(name))
    both = layout.scenes([12, 6], [77, 77], seed=2)  # box1 shown or not
    changed = (both.pixels[0] != both.pixels[1]).any(dim=0)
    assert bool(changed.any())
    assert not bool((changed & ~both.ink[0, 2]).any())
    assert torch.equal(both.ink[0, :2], both.ink[1, :2])


def test_noise_is_even() -> None:
    pixels = SceneLayout(background=NoiseBackground()).scenes([1] * 50, range(50), seed=0).pixels
    values = torch.bincount(pixels.flatten().long(), minlength=256).double()
    assert (int(pixels.min()), int(pixels.max())) == (0, 150)
    assert float(values[:151].std() / values[:151].mean()) < 0.03
    assert abs(float(pixels.double().mean()) - 75) < 1
    assert abs(float(np.corrcoef(pixels[0].flatten(), pixels[1].flatten())[0, 1])) < 0.05


def test_random_numbers_are_even_and_unlike() -> None:
    keys = keys_of(0, np.arange(20000))
    drawn = fractions(keys, "a", 3)
    assert np.allclose(drawn.mean(axis=0), 0.5, atol=0.01)
    assert np.allclose(drawn.std(axis=0), 12**-0.5, atol=0.01)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn[:, 0], fractions(keys, "b", 3)[:, 0])[0, 1]) < 0.03
    assert len(set(keys_of(0, np.arange(1000))) | set(keys_of(1, np.arange(1000)))) == 2000
    assert shorts(keys[:5], "c", 13).shape == (5, 13)


def test_other_scenes() -> None:
    objects = (TEXT, box("bar", 3, 20), box("dot", 1))
    layout = SceneLayout(side=96, objects=objects, colour=(255, 40, 0), background=TextureBackground())
    batch = some(layout, each=5)
    assert layout.buckets == 12
    assert batch.pixels.shape == (60, 3, 96, 96)
    assert batch.pixels[:, :, :, :].movedim(1, 3)[batch.ink.any(dim=1)].unique(dim=0).tolist() == [[255, 40, 0]]
    assert int(some(SceneLayout(background=ColourBackground()), each=3).pixels.flatten(2).float().std(dim=2)[0].max()) == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SnellenError, match="'text' is larger than a scene of 10×10"):
        SceneLayout(side=10)
    crowded = SceneLayout(side=20, objects=(box("a", 12), box("b", 12)))
    with pytest.raises(SnellenError, match="a, b do not fit into 20×20 without overlap"):
        crowded.scenes([1], [0], seed=0)
    with pytest.raises(SnellenError, match="a name of its own"):
        SceneLayout(objects=(box("a", 2), box("a", 3)))
    with pytest.raises(SnellenError, match="numbered from 1 to 12"):
        SceneLayout().scenes([13], [0], seed=0)


def test_photographs_from_a_folder(tmp_path: Path) -> None:
    Image.fromarray(np.full((90, 70, 3), 200, dtype=np.uint8)).save(tmp_path / "a.png")
    pixels = SceneLayout(background=find_background(str(tmp_path))).scenes([1], [0], seed=0).pixels
    assert pixels.unique().tolist() == [140]


def test_a_folder_that_cannot_be_a_background(tmp_path: Path) -> None:
    def drawn(folder: Path) -> SceneBatch:
        return SceneLayout(background=find_background(str(folder))).scenes([1], [0], seed=0)

    with pytest.raises(SnellenError, match=rf"the background '{tmp_path}' cannot be used: .* holds no pictures"):
        drawn(tmp_path)
    broken, small = tmp_path / "broken", tmp_path / "small"
    broken.mkdir()
    small.mkdir()
    (broken / "b.png").write_bytes(b"no picture")
    with pytest.raises(SnellenError, match=r"the background .*b.png' is not a picture that can be read"):
        drawn(broken)
    Image.fromarray(np.zeros((80, 80, 3), dtype=np.uint8)).save(broken / "a.png")
    with pytest.raises(SnellenError, match=r"b.png' is not a picture that can be read; repair it or take it out"):
        drawn(broken)
    for name, side in (("enough.png", 64), ("little.png", 63)):
        Image.fromarray(np.zeros((80, side, 3), dtype=np.uint8)).save(small / name)
    with pytest.raises(SnellenError, match=r"little.png' has 63×80 pixels, fewer than a scene of 64×64; take it out"):
        drawn(small)
    (small / "little.png").unlink()
    assert len(drawn(small)) == 1


def test_photographs_that_are_not_installed_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        SnellenError, match=r"the background 'photos' needs chelsea, .* pip install 'snellen\[demo\]', or give"
    ):
        SceneLayout(side=66, background=PhotoBackground()).scenes([1], [0], seed=0)  # a side that no other test has loaded


def test_an_unknown_background() -> None:
    with pytest.raises(SnellenError, match="there is no background 'nois', nor a folder of that name; did you mean 'noise'"):
        find_background("nois")
