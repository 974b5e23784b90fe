"""Work in several threads, each of which computes on one processor core."""

from __future__ import annotations

import pytest
import torch

from snellen.classifier.arithmetic import in_threads


def test_results_keep_their_order_and_threads_their_number():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert in_threads(lambda part: (part, torch.get_num_threads()), range(5)) == [(part, 1) for part in range(5)]
        with pytest.raises(ZeroDivisionError):
            in_threads(lambda part: 1 // part, [0])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
