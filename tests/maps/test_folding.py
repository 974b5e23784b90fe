from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from snellen.maps.folding import fold, mass, unit_mask

# Two images of 1×2 pixels with three channels.
ATTRIBUTIONS = torch.tensor([[[[1.0, -2.0]], [[-4.0, 0.5]], [[0.0, 3.0]]], [[[0.0, 0.0]], [[0.0, -6.0]], [[0.0, 0.0]]]])


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("sum", [[[-3.0, 1.5]], [[0.0, -6.0]]]),
        ("mean", [[[-1.0, 0.5]], [[0.0, -2.0]]]),
        ("absolute-sum", [[[5.0, 5.5]], [[0.0, 6.0]]]),
        ("absolute-max", [[[4.0, 3.0]], [[0.0, 6.0]]]),
    ],
)
def test_each_way_of_folding_channels(how, expected):
    before = ATTRIBUTIONS.clone()
    assert fold(ATTRIBUTIONS, how).tolist() == expected
    assert torch.equal(ATTRIBUTIONS, before)


def test_a_unit_mask_takes_the_magnitude_first_and_then_stretches():
    maps = torch.tensor([[[-4.0, 1.0, 2.0]], [[0.0, 5.0, -10.0]], [[3.0, -3.0, 3.0]]])
    masks = unit_mask(maps)
    # |−4, 1, 2| from 1 to 4; |0, 5, −10| from 0 to 10; the third has one magnitude only, hence no mask.
    torch.testing.assert_close(masks[:2], torch.tensor([[[1.0, 0.0, 1 / 3]], [[0.0, 0.5, 1.0]]]))
    assert bool(masks[2].isnan().all())


def test_mass_is_shares_of_magnitude():
    maps = torch.tensor([[[-3.0, 1.0]], [[0.0, 0.0]], [[1e30, 1e30]]])
    shares = mass(maps)
    assert shares[0].tolist() == [[0.75, 0.25]]
    assert bool(shares[1].isnan().all())
    assert shares[2].tolist() == [[0.5, 0.5]]


values = st.floats(-1000, 1000, width=32).filter(lambda value: value == 0 or abs(value) > 1e-3)


@given(st.lists(values, min_size=4, max_size=4), st.sampled_from([0.25, 2.0, -8.0]))
def test_masks_and_masses_do_not_see_scale_sign_or_neighbours(numbers, factor):
    maps = torch.tensor(numbers).view(1, 2, 2)
    neighbour = torch.tensor([[[1e6, 0.0], [-5.0, 2.0]]])
    for function in (unit_mask, mass):
        alone = function(maps)
        torch.testing.assert_close(function(maps * factor), alone, equal_nan=True)
        assert torch.equal(function(torch.cat([maps, neighbour]))[:1].nan_to_num(-1), alone.nan_to_num(-1))
        defined = alone[~alone.isnan()]
        assert bool(((defined >= 0) & (defined <= 1)).all())
