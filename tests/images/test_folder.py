from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from snellen import Geometry, SnellenError
from snellen.images import Samples, from_files, from_folder
from snellen.images.geometry import AS_IS

SMALL = Geometry((8, 8), crop=1.0)


def picture(path: Path, colour: tuple[int, int, int] = (200, 30, 10), size: tuple[int, int] = (20, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def refused(folder: Path, **settings: object) -> str:
    with pytest.raises(SnellenError) as caught:
        from_folder(folder, geometry=SMALL, **settings)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for name in ("b.png", "a.jpg", "c.png"):
        picture(folder / name)
    return folder


def test_a_flat_folder_is_sorted_and_unlabelled(flat: Path) -> None:
    samples = from_folder(flat, geometry=SMALL)
    assert samples.ids == ("a.jpg", "b.png", "c.png")
    assert [sample.label for sample in samples] == [None] * 3
    assert samples[0].image.shape == (3, 8, 8)
    assert samples.describe() == f"3 pictures from '{flat}'"
    assert samples.notes == ()


def test_hidden_and_other_files_are_ignored_and_the_others_counted(flat: Path) -> None:
    (flat / ".DS_Store").write_text("x")
    picture(flat / ".thumbs" / "a.jpg")
    (flat / "._a.jpg").write_text("x")
    (flat / "notes.txt").write_text("x")
    (flat / "list.csv").write_text("x")
    samples = from_folder(flat, geometry=SMALL)
    assert len(samples) == 3
    assert samples.notes == (f"2 files in '{flat}' ignored: not pictures by name",)


def test_empty_missing_and_mistaken_folders(tmp_path: Path) -> None:
    assert "holds no pictures; pictures end in" in refused(tmp_path)
    (tmp_path / "readme.txt").write_text("x")
    assert "holds no pictures (1 other files are there)" in refused(tmp_path)
    assert "does not exist" in refused(tmp_path / "gone")
    assert "is a file, not a folder" in refused(tmp_path / "readme.txt")


def test_a_link_to_a_parent_folder_does_not_loop(flat: Path) -> None:
    (flat / "again").symlink_to(flat, target_is_directory=True)
    assert len(from_folder(flat, geometry=SMALL)) == 3


# Unreadable pictures ----------------------------------------------------------------------------------------------------


def test_an_unreadable_picture_is_refused_by_name(flat: Path) -> None:
    (flat / "b.png").write_bytes(b"")
    text = refused(flat)
    assert text == f"'{flat / 'b.png'}' is empty (0 bytes); repair or remove it, or skip unreadable pictures"
    (flat / "c.png").write_text("x")
    assert "(and 1 more of 3 pictures cannot be used)" in refused(flat)


def test_skipping_remembers_what_and_why(flat: Path) -> None:
    (flat / "b.png").write_bytes(b"")
    samples = from_folder(flat, geometry=SMALL, unreadable="skip")
    assert samples.ids == ("a.jpg", "c.png")
    assert samples.skipped == (("b.png", f"'{flat / 'b.png'}' is empty (0 bytes)"),)
    assert "1 skipped as unreadable" in samples.describe()
    assert samples[1].id == "c.png"
    assert [sample.id for sample in samples.take([1])] == ["c.png"]


def test_skipping_everything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    assert "nothing is left to explain" in refused(tmp_path, unreadable="skip")


def test_an_unknown_option_for_unreadable_pictures_is_refused(flat: Path) -> None:
    assert "unreadable is 'refuse' or 'skip', not 'ignore'" in refused(flat, unreadable="ignore")


def test_an_animation_is_noted(flat: Path) -> None:
    frame = Image.new("RGB", (20, 10), (255, 0, 0))
    frame.save(flat / "d.gif", save_all=True, append_images=[Image.new("RGB", (20, 10), (0, 0, 255))])
    samples = from_folder(flat, geometry=SMALL)
    assert samples.notes == ("'d.gif' holds several frames; only the first is used",)
    assert samples[3].image[:, 4, 4].tolist() == [1.0, 0.0, 0.0]


def test_pictures_of_several_sizes_need_a_geometry(flat: Path) -> None:
    picture(flat / "d.png", size=(9, 9))
    with pytest.raises(SnellenError, match=r"'a.jpg' is 10×20×3 and 'd.png' is 9×9×3; all pictures must have one size"):
        from_folder(flat, geometry=AS_IS)


# Labels -----------------------------------------------------------------------------------------------------------------


def classed(tmp_path: Path, *names: str) -> Path:
    for name in names:
        picture(tmp_path / "classes" / name / "one.png")
    return tmp_path / "classes"


def labels(samples: Samples) -> list[int | None]:
    return [sample.label for sample in samples]


def test_sub_folders_by_class_name(tmp_path: Path) -> None:
    samples = from_folder(classed(tmp_path, "Tiger_cat", "dog"), geometry=SMALL, classes=["dog", "fish", "tiger cat"])
    assert dict(zip(samples.ids, labels(samples), strict=True)) == {"Tiger_cat/one.png": 2, "dog/one.png": 0}
    assert samples.notes == ()


def test_sub_folders_by_index(tmp_path: Path) -> None:
    assert labels(from_folder(classed(tmp_path, "007", "12"), geometry=SMALL)) == [7, 12]
    assert "means class 12, but classes go from 0 to 8" in refused(tmp_path / "classes", classes=list("abcdefghi"))


def test_sub_folders_in_sorted_order_say_so(tmp_path: Path) -> None:
    samples = from_folder(classed(tmp_path, "n02", "n01"), geometry=SMALL)
    assert labels(samples) == [0, 1]
    assert samples.notes == (
        f"sub-folders of '{tmp_path / 'classes'}' are taken as classes in sorted order (n01 = 0, n02 = 1)",
    )
    assert labels(from_folder(tmp_path / "classes", geometry=SMALL, classes=["cat", "dog"])) == [0, 1]


def test_a_sub_folder_that_is_no_class_is_refused(tmp_path: Path) -> None:
    text = refused(classed(tmp_path, "dogg", "cat"), classes=["cat", "dog", "fish"])
    assert "dogg' is no class of this classifier; did you mean 'dog'?" in text


def test_pictures_beside_sub_folders_are_refused(flat: Path) -> None:
    picture(flat / "cat" / "d.png")
    assert "holds pictures beside class sub-folders ('a.jpg' and 'cat/d.png')" in refused(flat)


def table(folder: Path, text: str) -> Path:
    path = folder.parent / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_by_index_name_and_unknown(flat: Path) -> None:
    path = table(flat, "\ufefffile,label\na.jpg,2\n./b.png,Tiger-Cat\nc.png,\n")
    samples = from_folder(flat, geometry=SMALL, labels=path, classes=["dog", "tiger cat", "fish"])
    assert labels(samples) == [2, 1, None]
    assert [sample.group for sample in samples] == [None] * 3


def test_a_column_of_groups(flat: Path) -> None:
    samples = from_folder(flat, geometry=SMALL, labels=table(flat, "group,file,label\n p 1,a.jpg,2\n,b.png,\np 1,c.png,0\n"))
    assert [sample.group for sample in samples] == ["p 1", None, "p 1"]
    assert [sample.group for sample in samples.take([2, 1])] == ["p 1", None]
    text = refused(flat, labels=table(flat, "file,label,group\na.jpg,2,x\na.jpg,2,y\n"))
    assert "line 3: 'a.jpg' has a second, different group" in text


def test_labels_find_files_in_sub_folders_by_unique_name(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    picture(folder / "x" / "a.png")
    picture(folder / "y" / "b.png")
    assert labels(from_folder(folder, geometry=SMALL, labels=table(folder, "file,label\na.png,3\ny/b.png,4\n"))) == [3, 4]
    picture(folder / "y" / "a.png")
    text = refused(folder, labels=table(folder, "file,label\na.png,3\n"))
    assert "'a.png' could be 'x/a.png' or 'y/a.png'; write the path" in text


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ("a.jpg,0\nb.png,0", "has no row for 'c.png'"),
        ("a.jpg,0", "has no row for 'b.png' and 1 more"),
        ("a.jpg,0\nb.png,9\nc.png,0", "line 3: label 9 is out of range (0 to 2)"),
        ("a.jpg,-1\nb.png,0\nc.png,0", "line 2: label -1 is out of range"),
        ("a.jpg,0\nb.png,0\nd.png,0", "line 4: there is no picture 'd.png'; did you mean"),
        ("a.jpg,tigr\nb.png,0\nc.png,0", "the label 'tigr' is no class of this classifier; did you mean 'tiger'?"),
        ("a.jpg,0\na.jpg,9\nb.png,0\nc.png,0", "line 3: label 9 is out of range (0 to 2)"),
    ],
)
def test_bad_labels(flat: Path, rows: str, part: str) -> None:
    path = table(flat, f"file,label\n{rows}\n")
    text = refused(flat, labels=path, classes=["tiger", "dog", "fish"])
    assert part in text
    assert "table.csv" in text


def test_bad_tables(flat: Path, tmp_path: Path) -> None:
    assert "needs the columns file, label in its first line, but 'label' is missing" in refused(
        flat, labels=table(flat, "file,class\na.jpg,1\n")
    )
    assert "cannot be read as a CSV file (No such file" in refused(flat, labels=tmp_path / "gone.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x81")
    assert "cannot be read as a CSV file" in refused(flat, labels=tmp_path / "binary.csv")
    assert "is a name, but no class names are known; write the class index" in refused(
        flat, labels=table(flat, "file,label\na.jpg,dog\n")
    )


# Truth ------------------------------------------------------------------------------------------------------------------


def mask(path: Path, size: tuple[int, int] = (20, 10), box: tuple[int, int, int, int] | None = (5, 0, 10, 5)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    marked = Image.new("L", size, 0)
    if box:
        marked.paste(255, box)
    marked.save(path)


def test_masks_by_stem_go_through_the_same_window(flat: Path, tmp_path: Path) -> None:
    mask(tmp_path / "masks" / "a.png")
    mask(tmp_path / "masks" / "b.png", box=None)
    mask(tmp_path / "masks" / "stray.png")
    samples = from_folder(flat, geometry=Geometry((10, 10), crop=1.0), masks=tmp_path / "masks")
    truth = samples[0].truth  # the window is columns 5 to 15 of 20
    assert truth is not None
    expected = torch.zeros(10, 10, dtype=torch.bool)
    expected[:5, :5] = True
    assert torch.equal(truth, expected)
    empty = samples[1].truth
    assert empty is not None
    assert not empty.any()
    assert samples[2].truth is None
    assert samples.notes == (
        f"1 of 3 pictures have no mask in '{tmp_path / 'masks'}', first 'c.png'",
        f"1 masks in '{tmp_path / 'masks'}' belong to no picture",
    )


def test_a_mask_of_another_size_is_refused_with_both_sizes(flat: Path, tmp_path: Path) -> None:
    mask(tmp_path / "masks" / "a.png", size=(10, 20))
    for how in ("refuse", "skip"):
        text = refused(flat, masks=tmp_path / "masks", unreadable=how)
        assert "a.png' is 10×20 pixels, but its picture 'a.jpg' is 20×10" in text


def test_masks_that_are_missing_or_ambiguous(flat: Path, tmp_path: Path) -> None:
    assert "is not a folder of masks" in refused(flat, masks=tmp_path / "gone")
    mask(tmp_path / "masks" / "z.png")
    assert "has the same stem as a picture, such as 'a.png'" in refused(flat, masks=tmp_path / "masks")
    mask(tmp_path / "masks" / "z.bmp")
    assert "'z.bmp' and 'z.png'" in refused(flat, masks=tmp_path / "masks")


def test_duplicate_stems_are_two_samples_but_cannot_share_a_mask(flat: Path, tmp_path: Path) -> None:
    picture(flat / "a.png")
    assert from_folder(flat, geometry=SMALL).ids[:2] == ("a.jpg", "a.png")
    mask(tmp_path / "masks" / "a.png")
    assert "'a.jpg' and 'a.png' would share the mask 'a.png'" in refused(flat, masks=tmp_path / "masks")


def test_boxes_add_up_and_go_through_the_window(flat: Path) -> None:
    path = table(flat, "file,x0,y0,x1,y1\na.jpg,5,0,10,5\na.jpg,14,9,15,10\n")
    samples = from_folder(flat, geometry=Geometry((10, 10), crop=1.0), boxes=path)
    truth = samples[0].truth
    assert truth is not None
    expected = torch.zeros(10, 10, dtype=torch.bool)
    expected[:5, :5] = True
    expected[9, 9] = True
    assert torch.equal(truth, expected)
    assert samples[1].truth is None


def test_boxes_of_a_large_jpeg_are_in_its_own_pixels(tmp_path: Path) -> None:
    """The picture is reduced while it is read; its box is not."""
    folder = tmp_path / "photos"
    picture(folder / "a.jpg", size=(400, 400))
    samples = from_folder(folder, geometry=SMALL, boxes=table(folder, "file,x0,y0,x1,y1\na.jpg,0,0,200,400\n"))
    truth = samples[0].truth
    assert truth is not None
    assert truth[:, :4].all()
    assert not truth[:, 4:].any()


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("a.jpg,5,0,21,5", "the box (5, 0, 21, 5) of 'a.jpg' does not lie within its 20×10 pixels"),
        ("a.jpg,-1,0,5,5", "the box (-1, 0, 5, 5) of 'a.jpg'"),
        ("a.jpg,5,5,5,9", "the box (5, 5, 5, 9) of 'a.jpg'"),
        ("a.jpg,5,x,6,9", "line 2: x0, y0, x1, y1 must be numbers of pixels"),
        ("a.jpg,5,nan,6,9", "line 2: x0, y0, x1, y1 must be numbers of pixels"),
        ("d.jpg,5,5,6,9", "there is no picture 'd.jpg'"),
    ],
)
def test_bad_boxes(flat: Path, row: str, part: str) -> None:
    assert part in refused(flat, boxes=table(flat, f"file,x0,y0,x1,y1\n{row}\n"))


def test_masks_and_boxes_at_once_are_refused(flat: Path, tmp_path: Path) -> None:
    assert refused(flat, masks=tmp_path, boxes=table(flat, "")) == "give masks or boxes as truth, not both"


# Size -------------------------------------------------------------------------------------------------------------------


def test_a_part_is_small_when_pickled_and_the_same(tmp_path: Path) -> None:
    for place in range(30):
        picture(tmp_path / f"{place:02d}.png", (place, 2 * place, 3 * place), size=(64, 64))
    samples = from_folder(tmp_path, geometry=Geometry((64, 64)))
    part = pickle.loads(pickle.dumps(samples.take([3, 17])))
    assert len(pickle.dumps(part)) < 2000
    assert part.ids == ("03.png", "17.png")
    assert torch.equal(part[1].image, samples[17].image)
    assert part.digest(1) == samples.digest(17)
    assert samples[2:4].ids == ("02.png", "03.png")
    assert samples[-1].id == "29.png"


def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path: Path) -> None:
    """Sixty decoded pictures would take 37 MB; what stays is paths and checksums."""
    shared = tmp_path / "shared.png"
    picture(shared, size=(64, 64))
    for place in range(60):
        (tmp_path / f"{place:02d}.png").symlink_to(shared)
    geometry = Geometry((224, 224))
    from_folder(tmp_path, geometry=geometry)
    tracemalloc.start()
    samples = from_folder(tmp_path, geometry=geometry)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(samples) == 61
    assert kept < 100_000
    assert peak < 5_000_000


def test_progress_is_reported(flat: Path) -> None:
    seen: list[tuple[int, int]] = []
    from_folder(flat, geometry=SMALL, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_digests_change_with_pixels_label_and_truth(flat: Path) -> None:
    plain = from_folder(flat, geometry=SMALL)
    labelled = from_folder(flat, geometry=SMALL, labels=table(flat, "file,label\na.jpg,1\nb.png,\nc.png,\n"))
    boxed = from_folder(flat, geometry=SMALL, boxes=table(flat, "file,x0,y0,x1,y1\na.jpg,0,0,20,10\n"))
    assert len({plain.digest(0), labelled.digest(0), boxed.digest(0)}) == 3
    assert plain.digest(1) == labelled.digest(1) == boxed.digest(1)
    picture(flat / "b.png", (0, 0, 1))
    assert from_folder(flat, geometry=SMALL).digest(1) != plain.digest(1)


def test_a_part_loads_from_another_folder(flat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask(tmp_path / "masks" / "a.png")
    monkeypatch.chdir(flat.parent)
    samples = from_folder("photos", geometry=SMALL, masks="masks")
    alone = from_files(["photos/a.jpg"], geometry=SMALL)
    assert alone.ids == ("photos/a.jpg",)
    monkeypatch.chdir(flat)
    assert samples[0].truth is not None
    assert torch.equal(alone[0].image, samples[0].image)


def test_single_files(flat: Path) -> None:
    samples = from_files([flat / "a.jpg"], geometry=SMALL)
    assert samples.ids == (str(flat / "a.jpg"),)
    with pytest.raises(SnellenError, match="list of files is empty"):
        from_files([], geometry=SMALL)


def test_one_channel(flat: Path) -> None:
    Image.fromarray(np.full((10, 20), 100, dtype=np.uint8)).save(flat / "d.png")
    assert {tuple(sample.image.shape) for sample in from_folder(flat, geometry=SMALL, channels=1)} == {(1, 8, 8)}


def test_pictures_of_different_sizes_get_an_error_that_names_the_option(tmp_path: Path) -> None:
    for side in (8, 9):
        Image.new("RGB", (side, side)).save(tmp_path / f"{side}.png")
    with pytest.raises(SnellenError, match=r"such as --size 224 \(in Python geometry=Geometry"):
        from_folder(tmp_path, geometry=AS_IS)


@pytest.mark.parametrize(("bits", "noted"), [(12, True), (14, True), (16, False)])
def test_data_of_fewer_than_sixteen_bits_in_a_sixteen_bit_file_is_noted(tmp_path: Path, bits: int, noted: bool) -> None:
    values = np.random.default_rng(0).integers(0, 2**bits, (8, 8), dtype=np.uint16)
    values[0, 0] = 2**bits - 1
    for name in ("a", "b"):
        Image.fromarray(values).save(tmp_path / f"{name}.png")
    Image.new("L", (8, 8)).save(tmp_path / "c.png")  # an ordinary dark picture beside them is nothing to speak of
    notes = from_folder(tmp_path, geometry=AS_IS, channels=1).notes
    factor = 2 ** (16 - bits)
    expected = f"'a.png' and 1 more use only the darkest 1/{factor} of the 16-bit range, like {bits}-bit data"
    assert any(note.startswith(expected) and f"multiply their values by {factor}," in note for note in notes) is noted
    assert noted or not notes


@pytest.mark.timeout(20)
def test_a_pipe_among_the_masks_does_not_hang(tmp_path: Path) -> None:
    for folder in ("pictures", "masks"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / "a.png")
    os.mkfifo(tmp_path / "masks" / "a.png")
    with pytest.raises(SnellenError, match=r"the mask .* is not an ordinary file"):
        from_folder(tmp_path / "pictures", geometry=AS_IS, masks=tmp_path / "masks")
