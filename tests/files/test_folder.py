"""A folder's files appear whole under their names, and one writer at a time is in it."""

from __future__ import annotations

import pickle

import pytest

from snellen.files.folder import InUseError, LocalFolder


def test_files_are_read_listed_moved_and_removed(tmp_path):
    folder = LocalFolder(tmp_path / "run")
    assert folder.list("maps") == {}
    folder.write_whole("maps/b", b"12345")
    folder.write_whole("maps/a", b"1")
    folder.write_whole("run.json", b"{}")
    assert folder.list("maps") == {"a": 1, "b": 5}
    assert folder.read("maps/b") == b"12345"
    assert folder.read_range("maps/b", 1, 2) == b"23"
    assert folder.read_range("maps/b", 4, 9) == b"5"
    state = folder.state("maps/b")
    folder.write_whole("maps/b", b"54321")
    assert folder.state("maps/b") != state
    folder.move("maps/b", "damaged/maps-b")
    assert not folder.exists("maps/b")
    assert folder.read("damaged/maps-b") == b"54321"
    folder.remove("damaged/maps-b")
    folder.remove("damaged/maps-b")
    with pytest.raises(FileNotFoundError):
        folder.read("damaged/maps-b")
    folder.delete()
    assert not (tmp_path / "run").exists()


def test_a_draft_becomes_a_file_only_when_it_is_adopted(tmp_path):
    folder = LocalFolder(tmp_path)
    with folder.draft() as draft:
        draft.write_bytes(b"whole")
        assert folder.list("maps") == {}
        folder.adopt(draft, "maps/a")
    with folder.draft() as draft:
        draft.write_bytes(b"given up")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["maps/a"]
    (tmp_path / "maps" / ".writing-left").write_bytes(b"of a killed process")
    assert list(folder.list("maps")) == ["a"]
    folder.sweep()
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["a"]


def test_a_second_writer_is_kept_out_until_the_first_leaves(tmp_path):
    with LocalFolder(tmp_path).lock(), pytest.raises(InUseError, match="wait until it ends"), LocalFolder(tmp_path).lock():
        pass
    with LocalFolder(tmp_path).lock():
        pass


def test_a_folder_is_the_same_in_a_process_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packed = pickle.dumps(LocalFolder("run"))
    assert str(pickle.loads(packed)) == str(tmp_path / "run")


def test_only_what_must_last_waits_for_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    for durable in (False, True):
        folder = pickle.loads(pickle.dumps(LocalFolder(tmp_path, durable=durable))).below("part")
        folder.write_whole("whole", b"bytes")
        folder.append("longer", b"bytes")
        with folder.draft() as draft:
            folder.adopt(draft, "draft")
        assert len(synced) == 3 * durable
