"""A file is whole or not there, and others can read it."""

from __future__ import annotations

import stat

import pytest

from snellen.files.atomic import replacing, write_whole


def test_a_file_is_written_for_all_to_read(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b"old and longer")
    path.chmod(0o600)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def break_off(path):
    with replacing(path) as temporary:
        temporary.write_bytes(b"half")
        assert path.read_bytes() == b"old"
        raise KeyError


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    with pytest.raises(KeyError):
        break_off(path)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
