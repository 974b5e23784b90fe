from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from snellen import Geometry, SnellenError
from snellen.images.geometry import AS_IS


def test_a_short_side_crops_at_whole_pixels_of_the_resized_image() -> None:
    # 90×60 becomes 60×40 (a pixel is 1.5 of the original), of which columns 14 to 46 and rows 4 to 36 remain.
    assert Geometry((32, 32), short_side=40).window(90, 60) == (21.0, 6.0, 69.0, 54.0)
    # 100×70 becomes int(57.1) = 57×40: columns 12 to 44 of 100/57 each.
    window = Geometry((32, 32), short_side=40).window(100, 70)
    assert window == pytest.approx((12 * 100 / 57, 7.0, 44 * 100 / 57, 63.0))
    # 90×60 becomes 56×37: 24 and 5 pixels are left, and torchvision rounds half of them to even.
    before, nearest = (Geometry((32, 32), short_side=37, nearest=nearest).window(90, 60) for nearest in (False, True))
    assert before[1] == pytest.approx(2 * 60 / 37)
    assert nearest[1] == pytest.approx(2 * 60 / 37)
    before, nearest = (Geometry((32, 32), short_side=39, nearest=nearest).window(90, 60) for nearest in (False, True))
    assert before[1] == pytest.approx(3 * 60 / 39)
    assert nearest[1] == pytest.approx(4 * 60 / 39)
    # Stretched to 37×37 first: columns 2 to 34 of 90/37 each.
    stretched = Geometry((32, 32), short_side=37, stretch=True).window(90, 60)
    assert stretched == pytest.approx((2 * 90 / 37, 2 * 60 / 37, 34 * 90 / 37, 34 * 60 / 37))
    with pytest.raises(SnellenError, match="short_side needs a size within it"):
        Geometry((32, 32), short_side=20)


def test_window_keeps_the_shape_of_the_target() -> None:
    assert Geometry((2, 4), crop=1.0).window(100, 100) == (0.0, 25.0, 100.0, 75.0)


def test_picture_by_hand() -> None:
    pixels = np.zeros((4, 4, 3), dtype=np.uint8)
    pixels[1:3, 1:3] = (255, 51, 0)
    seen = Geometry((2, 2), crop=0.5).picture(Image.fromarray(pixels))
    expected = torch.tensor([1.0, 0.2, 0.0]).view(3, 1, 1).expand(3, 2, 2)
    torch.testing.assert_close(seen, expected)


def test_as_is_changes_nothing() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    seen = AS_IS.picture(Image.fromarray(pixels))
    torch.testing.assert_close(seen, torch.from_numpy(pixels).permute(2, 0, 1) / 255)


def test_grey_becomes_three_equal_channels_and_colour_one_grey() -> None:
    grey = Image.new("L", (4, 4), 51)
    assert AS_IS.picture(grey, 3).shape == (3, 4, 4)
    torch.testing.assert_close(AS_IS.picture(grey, 3), torch.full((3, 4, 4), 0.2))
    assert AS_IS.picture(Image.new("RGB", (4, 4), (0, 255, 0)), 1).shape == (1, 4, 4)


def test_floating_point_grey_stays_within_bounds_when_it_overshoots() -> None:
    step = np.zeros((8, 8), dtype=np.float32)
    step[:, 4:] = 1.0
    seen = Geometry((32, 32), crop=1.0).picture(Image.fromarray(step), 1)
    assert float(seen.min()) == 0.0
    assert float(seen.max()) == 1.0


def test_a_mask_pixel_is_marked_when_half_of_it_was() -> None:
    marked = np.zeros((4, 4), dtype=bool)
    marked[0, 0] = marked[0, 1] = True  # half of the first of four quarters
    marked[2, 2] = True  # a quarter of the last one
    assert Geometry((2, 2), crop=1.0).mask(marked).tolist() == [[True, False], [False, False]]


def test_a_tiny_box_in_view_marks_a_pixel_and_one_out_of_view_none() -> None:
    geometry = Geometry((4, 4), crop=0.5)
    assert int(geometry.boxes([(50, 50, 50.2, 50.2)], 100, 100).sum()) == 1
    assert int(geometry.boxes([(0, 0, 20, 20)], 100, 100).sum()) == 0


@given(
    width=st.integers(8, 60),
    height=st.integers(8, 60),
    rows=st.integers(2, 20),
    columns=st.integers(2, 20),
    crop=st.sampled_from([0.5, 0.875, 1.0]),
    corners=st.tuples(*[st.floats(0, 1)] * 4),
)
@example(width=9, height=29, rows=7, columns=2, crop=1.0, corners=(0.0, 1.0, 0.0, 1.0))  # whose window rounded to below 0
def test_a_box_and_its_mask_agree_within_a_pixel(
    *, width: int, height: int, rows: int, columns: int, crop: float, corners: tuple[float, float, float, float]
) -> None:
    x0, x1 = sorted((int(corners[0] * (width - 1)), int(corners[1] * (width - 1)) + 1))
    y0, y1 = sorted((int(corners[2] * (height - 1)), int(corners[3] * (height - 1)) + 1))
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)
    marked = np.zeros((height, width), dtype=bool)
    marked[y0:y1, x0:x1] = True
    geometry = Geometry((rows, columns), crop=crop)
    by_box, by_mask = geometry.boxes([(x0, y0, x1, y1)], width, height), geometry.mask(marked)
    for axis in (0, 1):
        spans = [torch.nonzero(mask.any(dim=axis)).flatten() for mask in (by_box, by_mask)]
        if len(spans[1]):
            assert abs(int(spans[0][0]) - int(spans[1][0])) <= 1
            assert abs(int(spans[0][-1]) - int(spans[1][-1])) <= 1


@pytest.mark.parametrize(
    ("settings", "part"),
    [({"size": (0, 3)}, "(0, 3)"), ({"crop": 0.0}, "0.0"), ({"crop": 1.5}, "1.5")],
)
def test_an_invalid_geometry_is_refused_with_its_value(settings: dict[str, object], part: str) -> None:
    with pytest.raises(SnellenError, match=part.replace("(", r"\(").replace(")", r"\)")):
        Geometry(**settings)  # type: ignore[arg-type]


def test_stretching_takes_the_whole_image_whatever_its_proportions() -> None:
    geometry = Geometry(size=(10, 10), crop=0.5, stretch=True)
    assert geometry.window(100, 60) == (25.0, 15.0, 75.0, 45.0)
    mask = np.zeros((60, 100), dtype=bool)
    mask[15:45, 25:50] = True  # the left half of the crop
    expected = torch.zeros(10, 10, dtype=torch.bool)
    expected[:, :5] = True
    assert torch.equal(geometry.mask(mask), expected)
    assert torch.equal(geometry.boxes([(25, 15, 50, 45)], 100, 60), expected)
