"""The code of docs/python.md, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already require gradients")
def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    values: dict[str, object] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), values)
    assert "stability explains again, but no method was given" in capsys.readouterr().out
    table, maps = values["run"].table(), values["maps"]
    assert list(table.index) == ["grad-cam", "random"]
    assert maps["grad-cam"].shape == (4, *values["images"].shape[2:])
    assert bool(torch.tensor(table.to_numpy()).isfinite().all())
