from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.study.crowds import admit
from tests.study.planted_study import plant

from snellen.errors import SnellenError
from snellen.study.answers.export import write_export
from snellen.study.answers.store import FILE, AnswerStore
from snellen.study.folder import Study, new_password

_WATCHED: list[tuple[Path, set[str]]] = []


def _look() -> None:
    """Notes every file with secrets that strangers could read at this moment."""
    for folder, seen in _WATCHED:
        for path in folder.rglob("*"):
            secret = path.name.startswith((".writing-", FILE)) or path.name == "secret.json" or path.parent.name == "export"
            if secret and path.is_file() and path.stat().st_mode & 0o077:
                seen.add(f"{path.name} {stat.S_IMODE(path.stat().st_mode):o}")


def _hook(name: str, _: tuple[Any, ...], within: list[bool] = []) -> None:  # noqa: B006
    # Before every step that a program takes with a file, the folder is looked at: so nothing lasts too short to be seen.
    if _WATCHED and not within and name in ("open", "os.rename", "os.chmod", "os.remove", "sqlite3.connect", "os.mkdir"):
        within.append(True)
        try:
            _look()
        finally:
            within.clear()


sys.addaudithook(_hook)


@contextmanager
def _watched(folder: Path) -> Iterator[set[str]]:
    """What strangers could read in a folder at any moment, though every file is made for everybody."""
    seen: set[str] = set()
    before = os.umask(0)
    _WATCHED.append((folder, seen))
    try:
        yield seen
        _look()
    finally:
        _WATCHED.pop()
        os.umask(before)


def test_nobody_else_can_read_secrets_answers_or_exports_at_any_moment(tmp_path: Path) -> None:
    with _watched(tmp_path) as seen:
        study, _ = plant(tmp_path / "study", recruiting=["PID"])
        new_password(study.folder)
        with closing(AnswerStore.open(study)) as store:
            admit(store, "a", PID="somebody")
            assert len(list(study.folder.glob(f"{FILE}*"))) == 3
            (tmp_path / "open").write_text("for everybody")
            written = write_export(study, store, study.folder / "export", simulated=False)
            store.erase(store.participations(simulated=False)[0].participant)
    assert seen == set()
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o666  # the umask was as permissive as can be
    assert len(written) >= 8
    assert stat.S_IMODE((study.folder / "export").stat().st_mode) == 0o700


def test_files_of_the_database_that_were_copied_for_everybody_are_closed_to_strangers(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "study")
    AnswerStore.open(study).close()
    (study.folder / FILE).chmod(0o664)
    with closing(AnswerStore.open(study)) as store:
        admit(store, "a")
        assert {stat.S_IMODE(path.stat().st_mode) for path in study.folder.glob(f"{FILE}*")} == {0o660}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, bytes]:
    study, _ = plant(tmp_path_factory.mktemp("damaged") / "study")
    with closing(AnswerStore.open(study)) as store:
        for number in range(8):
            person = admit(store, f"t{number}")
            for page in range(4):
                store.reply(person, f"p{page:03d}", {"text": "content " * 40}, 1.0, last=False)
    return study, (study.folder / FILE).read_bytes()


@pytest.mark.parametrize("damage", ["page", "cut", "other"])
def test_a_damaged_database_is_refused_in_one_sentence_and_left_as_it_is(answered: tuple[Study, bytes], damage: str) -> None:
    study, whole = answered
    size = int.from_bytes(whole[16:18], "big")
    pages = range(size, len(whole), size)
    leaf = [at for at in pages if whole[at] == 0x0D][-1]  # the header of a table's leaf: its count of cells is made wrong
    broken = {
        "page": whole[: leaf + 3] + b"\xff\xff" + whole[leaf + 5 :],
        "cut": whole[: len(whole) // 2 // size * size],
        "other": b"something else " * 1000,
    }[damage]
    path = study.folder / FILE
    path.write_bytes(broken)
    with pytest.raises(
        SnellenError, match=r"is damaged \(.+\), and nothing was changed in it; put a backup in its place"
    ) as error:
        AnswerStore.open(study)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == broken
    path.write_bytes(whole)
    for more in study.folder.glob(f"{FILE}-*"):
        more.unlink()
    with closing(AnswerStore.open(study)) as store:
        assert store.reply_count(simulated=False) == 32
