"""Orders and ranks of rows beside torch's stable sort and SciPy's ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from snellen.maps.sorted_rows import argsort_rows, mean_ranks, sort_rows, stable_argsort_rows
from snellen.types import Rng

RNG = Rng(0, tuple("abc"))
ROWS = {
    "all differ": RNG.normal("rows", (500,)),
    "a third is zero": RNG.normal("rows", (500,)).where(RNG.uniform("zeros", (500,)) > 1 / 3, torch.tensor(0.0)),
    "few values": (RNG.uniform("rows", (500,)) * 7).floor(),
    "constant": torch.zeros(3, 40),
    "one value": torch.ones(3, 1),
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_equal_values_come_in_the_order_of_their_indices(rows):
    whole = (rows * 1000).long()
    assert torch.equal(stable_argsort_rows(whole), whole.argsort(dim=1, stable=True))


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_ranks_are_those_of_scipy(rows):
    assert torch.equal(mean_ranks(rows.double()), torch.from_numpy(stats.rankdata(rows.double().numpy(), axis=1)))


def test_what_is_missing_has_no_rank_and_takes_none_from_others():
    rows = torch.tensor([[3.0, torch.nan, 1.0, 1.0, torch.nan], [torch.nan] * 5, [5.0, 4.0, 3.0, 2.0, 1.0]]).double()
    expected = [[3, np.nan, 1.5, 1.5, np.nan], [np.nan] * 5, [5, 4, 3, 2, 1]]
    np.testing.assert_array_equal(mean_ranks(rows).numpy(), expected)


def test_an_order_sorts():
    rows = ROWS["a third is zero"]
    assert torch.equal(rows.gather(1, argsort_rows(rows)), sort_rows(rows))
    assert torch.equal(sort_rows(rows), rows.sort(dim=1).values)
