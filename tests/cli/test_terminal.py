"""What commands print for programs."""

from __future__ import annotations

import io
import json
import sys

import pytest

from snellen.cli.terminal import show_json


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1252"])
def test_json_is_json_in_every_encoding(monkeypatch, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    values = {"author": "Müller", "arrow": "↑", "score": 0.1 + 0.2}
    show_json(values)
    stream.flush()
    assert json.loads(stream.buffer.getvalue().decode(encoding)) == values


def test_json_never_holds_nan(capsys):
    with pytest.raises(ValueError, match="JSON"):
        show_json({"score": float("nan")})
    assert capsys.readouterr().out == ""
