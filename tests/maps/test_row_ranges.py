"""Row ranges: what `aminmax` and `isnan` say, only faster."""

from __future__ import annotations

import torch

from snellen.maps.row_ranges import has_nan, row_range
from snellen.types import Rng


def test_rows_with_nan_have_no_range():
    rows = Rng(0, tuple("abc")).normal("rows", (50,))
    rows[1, 7] = torch.nan
    rows[2, 3] = torch.inf
    low, high = row_range(rows)
    expected = rows.aminmax(dim=1)
    torch.testing.assert_close((low, high), tuple(expected), rtol=0, atol=0, equal_nan=True)
    assert has_nan(rows).tolist() == has_nan(rows.view(3, 5, 10)).tolist() == [False, True, False]
