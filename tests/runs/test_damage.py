"""Damaged files are never read as if they were intact; they are reported in a sentence and computed again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.runs.subject import load, recipe, write_labelled
from typer.testing import CliRunner

import snellen
from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.files.folder import LocalFolder
from snellen.files.integrity import CHECKSUM, DamagedError
from snellen.images import from_arrays, from_folder
from snellen.plugins.checks.planted import planted_batch
from snellen.runs import Options, Run, evaluate
from snellen.runs.progress import Silent
from snellen.runs.segments import Part, part_name, unit_frame
from snellen.runs.unit_index import open_index
from snellen.runs.verify import verify

ASKED = {"methods": ["gradient", "iba(steps=2, samples=2)", "random"], "metrics": ["complexity", "pointing-game"]}


class Listening(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text):
        self.notes.append(text)


@pytest.fixture(scope="module")
def subject():
    scene = planted_batch()
    pixels = scene.classifier.to_pixels(scene.inputs).clamp(0, 1)
    return scene.classifier, from_arrays(pixels[:3], labels=[0, 1, 2], truth=scene.truth[:3])


@pytest.fixture(scope="module")
def made(subject, tmp_path_factory):
    return computed(subject, tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def folder(made, tmp_path):
    return Path(shutil.copytree(made.folder, tmp_path / "run"))


def computed(subject, folder, observer=None):
    return evaluate(*subject, **ASKED, out=folder, options=Options(shard=2, threads=1), observer=observer)


def first(folder, pattern):
    return sorted(folder.glob(pattern))[0]


def flip(path, place=None, bit=3):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1 << bit
    path.write_bytes(content)


def read_all(run):
    """What a report reads."""
    for method in run.methods:
        run.maps(method, list(run.samples()["sample"]))
    for sample in run.samples()["sample"]:
        run.picture(sample)
    return run.table()


@pytest.mark.parametrize("pattern", ["segments/*.maps", "segments/*.units", "pictures/*", "tables/*", "run.json"])
def test_damaged_files_are_refused_by_readers_and_computed_again_by_writers(subject, made, folder, pattern):
    path = first(folder, pattern)
    flip(path)
    with pytest.raises(SnellenError, match=f"{path.name}' is damaged") as caught:
        read_all(Run(folder))
    assert "\n" not in str(caught.value)
    assert "again" in str(caught.value)
    assert [sentence for sentence in verify(folder).problems if path.name in sentence]
    seen = Listening()
    again = computed(subject, folder, seen)
    assert [sentence for sentence in seen.notes if path.name in sentence and "is computed again" in sentence]
    assert read_all(again).equals(made.table())
    assert verify(folder).problems == []
    assert list(folder.glob("damaged/*")), "what was damaged is kept for a look"


def test_flipped_signs_in_a_map_file_are_refused(folder):
    """Every sign bit of every map: the pointing game would fall without a word."""
    for unit in open_index(LocalFolder(folder), compare=False)[0].units():
        path = folder / "segments" / unit.maps.segment
        content = bytearray(path.read_bytes())
        start = unit.maps.offset + 8 + int.from_bytes(content[unit.maps.offset :][:8], "little")
        end = unit.maps.offset + unit.maps.length
        content[start + 3 : end : 4] = bytes(byte ^ 0x80 for byte in content[start + 3 : end : 4])
        path.write_bytes(content)
    with pytest.raises(DamagedError, match="the maps of gradient for samples 1 to 2 do not match their checksum"):
        read_all(Run(folder))


def test_a_changed_digit_in_a_record_is_refused_though_it_is_still_json(folder):
    path = first(folder, "lessons/*.json")
    text = path.read_text()
    place = text.index('"seconds": ') + len('"seconds": ')
    changed = text[:place] + ("1" if text[place] != "1" else "2") + text[place + 1 :]
    json.loads(changed)
    path.write_text(changed)
    assert [sentence for sentence in verify(folder).problems if "does not match its checksum" in sentence]


def test_records_of_older_versions_have_no_checksum_and_open(made, folder):
    for path in [folder / "run.json", *folder.glob("lessons/*.json")]:
        record = json.loads(path.read_bytes())
        del record[CHECKSUM]
        record.pop("merged", None)
        path.write_text(json.dumps(record))
    assert read_all(Run(folder)).equals(made.table())
    result = verify(folder)
    assert result.problems == []
    assert "have no checksum" in result.summary


@pytest.mark.parametrize("pattern", ["segments/*.maps", "segments/*.units", "tables/*"])
def test_a_missing_file_of_a_finished_run_is_refused(subject, made, folder, pattern):
    path = first(folder, pattern)
    path.unlink()
    with pytest.raises(DamagedError, match="missing"):
        read_all(Run(folder))
    assert verify(folder).problems
    assert read_all(computed(subject, folder)).equals(made.table())
    assert verify(folder).problems == []


def test_a_stored_index_is_made_again(subject, made, folder):
    path = first(folder, "index/*")
    flip(path)
    assert read_all(Run(folder)).equals(made.table()), "readers do without it"
    assert [sentence for sentence in verify(folder).problems if path.name in sentence]
    seen = Listening()
    assert computed(subject, folder, seen).table().equals(made.table())
    assert [note for note in seen.notes if path.name in note and "made again from the segments" in note]
    assert any("units are already finished" in note for note in seen.notes)
    assert verify(folder).problems == []
    for name in folder.glob("index/*"):
        name.unlink()
    assert read_all(Run(folder)).equals(made.table())


def test_a_damaged_fitted_state_is_fitted_again(subject, made, folder):
    flip(first(folder, "lessons/*.safetensors"))
    seen = Listening()
    assert computed(subject, folder, seen).table().equals(made.table())
    assert any("lessons" in note and "is computed again" in note for note in seen.notes)
    assert verify(folder).problems == []


def test_a_damaged_variant_is_trained_again(tmp_path):
    geometry = snellen.Geometry(size=(32, 32), crop=1.0)
    images = from_folder(write_labelled(tmp_path / "images", 4), geometry=geometry)
    training = from_folder(write_labelled(tmp_path / "training", 10), geometry=geometry)
    request = {"methods": ["gradient"], "metrics": ["repeatability"], "recipe": recipe, "training": training}
    classifier = snellen.Classifier(load())
    before = evaluate(classifier, images, **request, out=tmp_path / "run")
    file = next(path for path in (tmp_path / "run" / "relatives").iterdir() if path.suffix != ".json")
    flip(file)
    seen = Listening()
    after = evaluate(classifier, images, **request, out=tmp_path / "run", observer=seen)
    assert any(file.name in note and "is computed again" in note for note in seen.notes)
    assert after.table().equals(before.table())
    assert verify(tmp_path / "run").problems == []


@pytest.mark.parametrize("place", ["../outside.maps", "../../outside.maps", "/etc/passwd", "a.txt"])
def test_a_frame_cannot_name_files_elsewhere(subject, folder, place):
    outside = folder / "outside.maps"
    outside.write_bytes(b"mine" * 100)
    unit = next(open_index(LocalFolder(folder), compare=False)[0].units())
    maps = Part(name=part_name(b"mine"), segment=place, offset=0, length=4)
    for path in folder.glob("index/*"):
        path.unlink()
    content = unit_frame(replace(unit, maps=maps, scores=None), b"", maps_inside=False)
    (folder / "segments" / "zz.units").write_bytes(content)
    with pytest.raises(DamagedError, match="this cannot be the place of maps"):
        read_all(Run(folder))
    computed(subject, folder)
    assert outside.read_bytes() == b"mine" * 100


def test_the_command_counts_names_and_changes_nothing(folder):
    done = CliRunner().invoke(app, ["verify", str(folder)])
    assert done.exit_code == 0
    assert "0 damaged or missing" in done.stdout
    table = folder / "scores.parquet"
    flip(table)
    maps = first(folder, "segments/*.maps")
    flip(maps)
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = CliRunner().invoke(app, ["verify", str(folder)])
    assert done.exit_code == 1
    assert "2 damaged or missing" in done.stdout
    assert table.name in done.stdout
    assert maps.name in done.stdout
    assert "snellen resume" in done.stdout
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == contents
    assert isinstance(CliRunner().invoke(app, ["verify", str(folder.parent / "none")]).exception, SnellenError)


@pytest.mark.parametrize("pattern", ["segments/*.maps", "segments/*.units", "index/*", "tables/*"])
def test_any_flipped_bit_is_caught(folder, pattern):
    generator = np.random.default_rng(0)
    path = first(folder, pattern)
    whole = path.read_bytes()
    for place, bit in zip(generator.integers(0, len(whole), 20), generator.integers(0, 8, 20), strict=True):
        flip(path, place, bit)
        assert verify(folder).problems, (place, bit)
        path.write_bytes(whole)
    assert verify(folder).problems == []
