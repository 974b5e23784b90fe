"""Segments and their index: what was written is read back, whatever is cut off, flipped, or written twice."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snellen.errors import SnellenError
from snellen.files.folder import LocalFolder
from snellen.files.integrity import DamagedError
from snellen.images.columns import Names
from snellen.runs.record import Cost
from snellen.runs.segments import Broken, FinishedUnit, frames
from snellen.runs.store import Store
from snellen.runs.unit_index import open_index
from snellen.runs.unit_writer import UnitFacts, UnitWriter

COST = Cost(seconds=0.1, forward=3, backward=2, model_seconds=0.05, shared_forward=1, shared_backward=0, shared_seconds=0.01)
METRICS = ("deletion(steps=4)", "Schärfe 测试", "plain")


class Whole(LocalFolder):
    """A folder whose files cannot be lengthened, as on object storage."""

    appends = False

    def append(self, name: str, content: bytes) -> None:
        raise AssertionError("it cannot be lengthened")


def key(number: int) -> str:
    return f"{number:020x}"


def facts(number: int, metrics=METRICS, count: int = 4) -> UnitFacts:
    return UnitFacts(
        key=key(number),
        map_key=key(10_000 + number),
        method="gradient",
        start=count * number,
        count=count,
        metric_keys={metric: key(20_000 + place) for place, metric in enumerate(metrics)},
    )


def maps_of(number: int, count: int = 4) -> np.ndarray:
    return np.random.default_rng(number).random((count, 5, 6), dtype=np.float32)


def scores_of(number: int, metrics=METRICS, count: int = 4) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    rng = np.random.default_rng(number)
    values = {metric: np.where(rng.random(count) < 0.2, np.nan, rng.random(count)) for metric in metrics}
    return {name: (row, rng.random((count, 5), np.float32) if "steps" in name else None) for name, row in values.items()}


def write(writer: UnitWriter, number: int, metrics=METRICS, **changed) -> FinishedUnit:
    values = {
        "maps": maps_of(number),
        "scores": scores_of(number, metrics),
        "cost": COST,
        "metric_costs": dict.fromkeys(metrics, COST),
        "refused": {},
    }
    return writer.write(facts(number, metrics), **(values | changed))


def names(count: int) -> Names:
    return Names([f"Bild {number} ☂" for number in range(count)])


def filled(folder: Path | LocalFolder, count: int = 6) -> Store:
    store = Store(folder)
    with store.writing():
        for number in range(count):
            store.commit(write(store.own_writer, number))
    return store


def check_all(store: Store, numbers) -> None:
    units = {unit.key: unit for unit in store.index.units()}
    assert set(units) == {key(number) for number in numbers}
    for number in numbers:
        unit = store.unit(key(number))
        np.testing.assert_array_equal(store.maps(unit), maps_of(number))
        table = store.scores([(unit, METRICS)], names(1000), ["sample", "metric", "value", "curve"]).to_pandas()
        for metric, (values, curve) in scores_of(number).items():
            rows = table[table["metric"] == metric]
            assert rows["sample"].tolist() == list(names(1000)[4 * number : 4 * number + 4])
            np.testing.assert_array_equal(rows["value"], values)
            assert rows["curve"].isna().all() if curve is None else np.array_equal(np.stack(list(rows["curve"])), curve)
        assert unit.cost == COST
        assert unit.metric_costs["plain"] == COST


@pytest.mark.parametrize("kind", [LocalFolder, Whole])
def test_what_was_written_is_read_back_in_few_files(tmp_path, kind):
    filled(kind(tmp_path))
    check_all(Store(tmp_path), range(6))
    assert len(list((tmp_path / "segments").iterdir())) == 2
    store = Store(tmp_path)
    with store.writing():
        store.store_index()
    assert len(list((tmp_path / "index").iterdir())) == 1
    check_all(Store(tmp_path), range(6))
    assert Store(tmp_path).units_with_maps(key(10_003))[0].key == key(3)


def test_workers_write_and_the_client_notes_it(tmp_path):
    store = Store(tmp_path)
    with store.writing():
        writers = [pickle.loads(pickle.dumps(store.writer())) for _ in range(2)]
        done = [pickle.loads(pickle.dumps(write(writers[number % 2], number))) for number in range(6)]
        for unit in done:
            store.commit(unit)
        check_all(store, range(6))
    assert len(list((tmp_path / "segments").glob("*.units"))) == 2


def test_what_a_worker_wrote_counts_though_the_client_died(tmp_path):
    write(pickle.loads(pickle.dumps(Store(Whole(tmp_path)).writer())), 0)
    write(Store(tmp_path).writer(), 1)
    check_all(Store(tmp_path), range(2))


def test_a_unit_that_was_written_twice_counts_once(tmp_path):
    store = Store(tmp_path)
    with store.writing():
        for _ in range(2):
            store.commit(write(store.writer(), 0))
            store.commit(write(store.writer(), 1))
        store.store_index()
        store.commit(write(store.writer(), 1))
        check_all(store, range(2))
    check_all(Store(tmp_path), range(2))


@pytest.mark.parametrize("stored", [False, True])
def test_a_killed_writer_leaves_whole_units_at_any_byte(tmp_path, stored):
    """Both files are cut where the writer may have died: behind any byte of the maps, then of the frames."""
    store = filled(tmp_path / "run", 2)
    with store.writing():
        if stored:
            store.store_index()
        store.commit(write(store.own_writer, 2))
    (units,), (maps,) = (sorted((tmp_path / "run" / "segments").glob(f"*.{kind}")) for kind in ("units", "maps"))
    whole, third = units.read_bytes(), store.index.get(key(2))
    for cut in range(third.frame[1], third.frame[2], 37):
        folder = Path(shutil.copytree(tmp_path / "run", tmp_path / f"cut-{cut}"))
        (folder / "segments" / units.name).write_bytes(whole[:cut])
        check_all(Store(folder), range(2))
        notes: list[str] = []
        again = Store(folder, notes.append)
        with again.writing():
            assert again.unit(key(2)) is None
            assert notes == [], "a unit in flight is no damage"
            again.commit(write(again.own_writer, 2))
        check_all(Store(folder), range(3))
    assert maps.stat().st_size == third.maps.offset + third.maps.length


def test_a_flipped_bit_costs_one_unit_and_is_said_once(tmp_path):
    filled(tmp_path)
    (path,) = (tmp_path / "segments").glob("*.units")
    whole = bytearray(path.read_bytes())
    second = Store(tmp_path).unit(key(1))
    for place in range(second.frame[1], second.frame[2], 101):
        flipped = bytearray(whole)
        flipped[place] ^= 4
        path.write_bytes(flipped)
        with pytest.raises(DamagedError, match=f"{path.name}' is damaged"):
            _ = Store(tmp_path).index
        notes: list[str] = []
        store = Store(tmp_path, notes.append)
        with store.writing():
            assert {unit.key for unit in store.index.units()} == {key(number) for number in (0, 2, 3, 4, 5)}
            assert len(notes) == 1
            store.commit(write(store.own_writer, 1))
        check_all(Store(tmp_path), range(6))
        for other in (tmp_path / "segments").iterdir():
            if other.stem != path.stem:
                other.unlink()


def test_damaged_maps_are_noticed_before_they_are_used(tmp_path):
    store = filled(tmp_path)
    with store.writing():
        store.store_index()
    (path,) = (tmp_path / "segments").glob("*.maps")
    content = bytearray(path.read_bytes())
    content[store.unit(key(3)).maps.offset + 200] ^= 1
    path.write_bytes(content)
    notes: list[str] = []
    again = Store(tmp_path, notes.append)
    with again.writing():
        assert [again.is_intact(unit) for unit in list(again.index.units())] == [True, True, True, False, True, True]
        assert "the maps of gradient for samples 13 to 16 do not match" in notes[0]
    assert {unit.key for unit in Store(tmp_path).index.units()} == {key(number) for number in (0, 1, 2, 4, 5)}
    assert len(list((tmp_path / "damaged").iterdir())) == 2
    with again.writing():
        again.store_index()
    assert {unit.key for unit in Store(tmp_path).index.units()} == {key(number) for number in (0, 1, 2, 4, 5)}


def test_an_index_that_was_not_finished_or_is_of_less_is_no_loss(tmp_path):
    store = filled(tmp_path)
    with store.writing():
        store.store_index()
        (first,) = (tmp_path / "index").iterdir()
        before = first.read_bytes()
        for number in range(6, 9):
            store.commit(write(store.own_writer, number))
        store.store_index()
    (second,) = (tmp_path / "index").iterdir()
    first.write_bytes(before)  # the writer died before it removed this
    check_all(Store(tmp_path), range(9))
    second.write_bytes(second.read_bytes()[:-9])
    check_all(Store(tmp_path), range(9))
    second.unlink()
    check_all(Store(tmp_path), range(9))
    first.unlink()
    check_all(Store(tmp_path), range(9))


def test_units_without_maps_scores_or_metrics(tmp_path):
    store = Store(tmp_path)
    with store.writing():
        store.commit(write(store.own_writer, 0, metrics=(), scores={}))
        store.commit(write(store.own_writer, 1, maps=None, cost=None))
        store.commit(write(store.own_writer, 2, maps=maps_of(2)[[1, 3]], kept=(1, 3)))
        store.commit(write(store.own_writer, 3, metric_costs={}, scores={}, refused=dict.fromkeys(METRICS, "no “reason”")))
        store.store_index()
    store = Store(tmp_path)
    bare, unmapped, some, refused = (store.unit(key(number)) for number in range(4))
    assert (bare.scores, bare.has_all_maps, unmapped.maps, some.kept, some.has_all_maps) == (None, True, None, (1, 3), False)
    np.testing.assert_array_equal(store.maps(some), maps_of(2)[[1, 3]])
    with pytest.raises(SnellenError, match="the maps of gradient for samples 5 to 8 were not kept"):
        store.maps(unmapped)
    assert refused.refused["plain"].problem == "no “reason”"
    assert store.scores([(bare, ())], names(20), ["value"]).num_rows == 0


def test_the_table_of_scores_does_not_depend_on_how_units_came(tmp_path):
    merged = []
    for order in (range(6), [5, 2, 0, 1, 4, 3]):
        store = Store(tmp_path / str(len(merged)))
        with store.writing():
            for number in order:
                store.commit(write(store.writer() if number % 2 else store.own_writer, number))
            merged.append(store.merge([(store.unit(key(number)), METRICS) for number in range(6)], names(24)))
    assert merged[0] == merged[1]


def test_a_full_disk_costs_one_unit(tmp_path, monkeypatch):
    store = filled(tmp_path, 1)
    appended = LocalFolder.append

    def full(self, name, content):
        appended(self, name, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    with store.writing():
        store.commit(write(store.own_writer, 1))
        monkeypatch.setattr(LocalFolder, "append", full)
        with pytest.raises(SnellenError, match=r"No space left on device.*finished work is kept"):
            write(store.own_writer, 2)
        monkeypatch.undo()
        store.commit(write(store.own_writer, 3))
    check_all(Store(tmp_path), (0, 1, 3))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_are_read_as_another_unit(tmp_path_factory, data):
    """Whatever happens to a file of units, what is read back is one of the units that were written."""
    content, units = _content(tmp_path_factory)
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 300)))
    changed = content[:start] + data.draw(st.binary(max_size=20)) + content[end:]
    for _, entry in frames(changed, "a.units"):
        if isinstance(entry, FinishedUnit):
            twin = units[entry.key]
            assert (entry.map_key, entry.metrics, entry.metric_costs) == (twin.map_key, twin.metrics, twin.metric_costs)
        else:
            assert isinstance(entry, Broken)


def _content(factory) -> tuple[bytes, dict[str, FinishedUnit]]:
    if not _MADE:
        folder = factory.mktemp("frames")
        store = filled(folder, 3)
        _MADE.append(next((folder / "segments").glob("*.units")).read_bytes())
        _MADE.append({unit.key: unit for unit in store.index.units()})
    return _MADE[0], _MADE[1]


_MADE: list = []


def test_readers_see_units_while_they_are_written(tmp_path):
    store = Store(tmp_path)
    with store.writing():
        for number in range(3):
            store.commit(write(store.own_writer, number))
            assert len(open_index(LocalFolder(tmp_path), compare=False)[0]) == number + 1
