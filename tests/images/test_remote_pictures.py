"""Pictures, lists and shards on object storage give the samples that a disk gives; what changes or is missing is noticed."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from tests.s3_server import error

from snellen.errors import SnellenError
from snellen.files.folder import LocalFolder, folder_at
from snellen.images import as_samples
from snellen.images import samples as samples_module
from snellen.images.any_source import from_path
from snellen.images.geometry import AS_IS
from snellen.types import Findings

NAMES = ("cat/a.png", "cat/b.png", "dog/c.png")


def encoded(seed: int, side: int = 8) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def mask() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.eye(8, dtype=np.uint8) * 255).save(buffer, format="PNG")
    return buffer.getvalue()


def fill(folder) -> None:
    for seed, name in enumerate(NAMES):
        folder.write_whole(f"photos/{name}", encoded(seed))
    folder.write_whole("photos/notes.txt", b"not a picture")
    folder.write_whole("masks/a.png", mask())
    folder.write_whole("labels.csv", b"file,label,group\ncat/a.png,1,p\ncat/b.png,0,q\ndog/c.png,1;2,q\n")
    folder.write_whole("boxes.csv", b"file,x0,y0,x1,y1\nc.png,1,1,4,5\n")
    rows = {
        "file": list(NAMES),
        "label": ["cat", None, "1;2"],
        "group": ["p", "", "q"],
        "mask": ["../masks/a.png", None, None],
        "sha256": [hashlib.sha256(encoded(seed)).hexdigest() for seed in range(3)],
    }
    folder.write_whole("photos/list.parquet", parquet(rows | {"mask": ["cat/a.png", None, None]}))
    for number, part in enumerate((NAMES[:2], NAMES[2:])):
        folder.write_whole(f"shards/s-{number}.tar", shard(part))


def parquet(rows: dict[str, object]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue().to_pybytes()


def shard(names) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            seed = NAMES.index(name)
            for path, content in ((name, encoded(seed)), (name.replace("png", "cls"), str(seed).encode())):
                info = tarfile.TarInfo(path)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> str:
    folder = LocalFolder(tmp_path_factory.mktemp("pictures"))
    fill(folder)
    return str(folder)


@pytest.fixture(params=["memory", "s3"])
def url(request, tmp_path) -> str:
    url = f"memory://{tmp_path.name}" if request.param == "memory" else request.getfixturevalue("bucket")
    fill(folder_at(f"{url}/x"))
    return f"{url}/x"


@pytest.fixture
def on_s3(bucket) -> str:
    fill(folder_at(f"{bucket}/x"))
    return f"{bucket}/x"


def same(first, second) -> None:
    assert tuple(first.ids) == tuple(second.ids)
    for sample, other in zip(first, second, strict=True):
        assert torch.equal(sample.image, other.image)
        assert (sample.label, sample.group, sample.number) == (other.label, other.group, other.number)
        assert (sample.truth is None) == (other.truth is None)
        assert sample.truth is None or torch.equal(sample.truth, other.truth)


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("photos", {}),
        ("photos", {"labels": "labels.csv", "masks": "masks"}),
        ("photos", {"labels": "labels.csv", "boxes": "boxes.csv"}),
        ("photos/list.parquet", {"classes": ["cat", "dog", "owl"]}),
        ("shards", {}),
        ("shards/s-{0..1}.tar", {}),
    ],
    ids=["folder", "masks", "boxes", "manifest", "shards", "numbered"],
)
def test_object_storage_gives_the_samples_of_a_disk(path, settings, local, url):
    def read(place, **more):
        files = {name: f"{place}/{value}" if isinstance(value, str) else value for name, value in settings.items()}
        return from_path(f"{place}/{path}", geometry=AS_IS, **files, **more)

    same(read(url), read(local))
    assert read(url).digests == read(local).digests
    for place in (url, local):
        first = read(place, check="first")
        same(first, read(local))
        assert first.digests != read(local).digests
        assert any("the first 3 of 3 pictures were checked, and all are identified by" in note for note in first.notes)
        same(first[1:], read(local)[1:])
        assert first[1:].digests == first.digests[1:]
        assert read(place, check="first").digests == first.digests


def test_urls_of_single_pictures_and_lists_of_them(on_s3, local):
    same_pixels = [as_samples(f"{place}/photos/cat/a.png")[0].image for place in (on_s3, local)]
    assert torch.equal(*same_pixels)
    both = as_samples([f"{on_s3}/photos/cat/a.png", f"{local}/photos/cat/b.png"])
    assert torch.equal(both[1].image, as_samples(f"{local}/photos")[1].image)


def test_an_object_that_changes_during_a_run_is_noticed(url):
    samples = from_path(f"{url}/photos", geometry=AS_IS, check="first")
    folder_at(url).write_whole("photos/cat/b.png", encoded(9))
    assert samples[0].id == "cat/a.png"
    with pytest.raises(SnellenError, match=r"'.*/cat/b\.png' was changed while the run was under way; start it again"):
        samples[1]
    with pytest.raises(SnellenError, match="was changed while the run was under way"):
        list(samples)


def test_a_local_file_that_changes_during_a_run_is_noticed(tmp_path):
    fill(LocalFolder(tmp_path))
    samples = from_path(tmp_path / "photos", geometry=AS_IS, check="first", masks=tmp_path / "masks")
    before = samples.digests
    os.utime(tmp_path / "photos" / NAMES[2], ns=(0, 0))
    os.utime(tmp_path / "masks" / "a.png", ns=(0, 0))
    for place in (0, 2):
        with pytest.raises(SnellenError, match="was changed while the run was under way; start it again"):
            samples[place]
    again = from_path(tmp_path / "photos", geometry=AS_IS, check="first", masks=tmp_path / "masks").digests
    assert [first == other for first, other in zip(before, again, strict=True)] == [False, True, False]


def test_what_is_wrong_with_a_picture_that_was_not_loaded_first_is_said_where_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(samples_module, "FIRST", 1)
    contents = [encoded(0), encoded(1, side=9), b"no picture"]

    def write(place, content):
        path = tmp_path / f"{place}.png"
        path.write_bytes(content.ljust(600, b"\0"))  # which a PNG may have behind its end
        os.utime(path, ns=(0, 0))

    for place in range(3):
        write(place, contents[0])
    samples = from_path(tmp_path, geometry=AS_IS, check="first")
    for place in range(3):  # unchanged by all that is known of them: as if they had been so from the beginning
        write(place, contents[place])
    assert samples[0].id == "0.png"
    with pytest.raises(SnellenError, match=r"the first picture is 8×8×3 and '1\.png' is 9×9×3; all pictures must have one"):
        samples[1]
    with pytest.raises(SnellenError, match=r"2\.png' is not a picture that can be read"):
        samples[2]


def test_from_a_number_of_pictures_on_only_the_first_are_loaded(local, monkeypatch):
    monkeypatch.setattr(samples_module, "CHECKED", 2)
    assert as_samples(f"{local}/photos").shape == (3, 8, 8)
    assert as_samples(f"{local}/photos", check="all").shape is None
    assert from_path(f"{local}/photos", geometry=AS_IS, unreadable="skip").shape is None
    with pytest.raises(SnellenError, match="all must be read first; leave out --check first"):
        from_path(f"{local}/photos", geometry=AS_IS, unreadable="skip", check="first")
    with pytest.raises(SnellenError, match="check is 'all' or 'first', not 'some'"):
        as_samples(f"{local}/photos", check="some")


# Manifests --------------------------------------------------------------------------------------------------------------


def manifest(tmp_path, rows, **settings):
    fill(LocalFolder(tmp_path))
    (tmp_path / "photos" / "mine.parquet").write_bytes(parquet(rows))
    return from_path(tmp_path / "photos" / "mine.parquet", geometry=AS_IS, classes=["cat", "dog", "owl"], **settings)


def test_labels_of_manifests_in_all_forms(tmp_path):
    files = list(NAMES)
    for column, expected in (
        ([0, 2, None], [0, 2, None]),
        ([0.0, 2.0, float("nan")], [0, 2, None]),
        (["cat", "2", ""], [0, 2, None]),
        (["Cat;dog", "owl", None], [Findings((0, 1)), 2, None]),
        ([[0, 1], [2], []], [Findings((0, 1)), 2, None]),
        ([["cat", "owl"], ["owl"], None], [Findings((0, 2)), 2, None]),
    ):
        read = manifest(tmp_path, {"file": files, "label": column})
        assert [sample.label for sample in read] == expected
    numbers = manifest(tmp_path, {"file": files, "label": [1.5, float("nan"), None]}, numbers=True)
    assert [sample.number for sample in numbers] == [1.5, None, None]


def test_rows_name_ids_boxes_and_whole_paths_below_the_root(tmp_path):
    rows = {
        "url": [f"{tmp_path}/photos/cat/a.png", "photos/cat/b.png", "photos/dog/c.png"],
        "id": ["x", None, "z"],
        "boxes": [[[1, 1, 3, 3]], None, []],
        "camera": ["?", "?", "?"],
    }
    read = manifest(tmp_path, rows, root=tmp_path)
    assert tuple(read.ids) == ("x", "photos/cat/b.png", "z")
    assert [None if sample.truth is None else int(sample.truth.sum()) for sample in read] == [4, None, None]
    assert read.notes[0].endswith("has columns that are not read: 'camera'")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"path": ["a.png"]}, r"needs a column file or a column url with the pictures, but has neither \(it has: path\)"),
        ({"file": ["a.png"], "url": ["a.png"]}, "has both"),
        ({"file": [1]}, r"there is no file '.*/photos/1'"),
        ({"file": [[1]]}, r"the column file holds list<.*>, not text"),
        ({"file": ["cat/a.png", None]}, "has a row without a file; remove the row"),
        ({"file": ["cat/a.png", "cat/a.png"]}, "the sample id 'cat/a.png' occurs twice"),
        ({"file": ["/etc/passwd"]}, r"names '/etc/passwd', which is not below '.*'; name the folder that.*--root"),
        ({"file": ["../secret.png"]}, r"names '\.\./secret\.png', which is not below"),
        ({"file": ["s3://other/a.png"]}, "names 's3://other/a.png', which is not below"),
        ({"file": ["s3://key:sesame@other/a.png"]}, "holds credentials, which would be written into records"),
        ({"file": ["cat/a.png"], "mask": ["/etc/passwd"]}, "names '/etc/passwd', which is not below"),
        ({"file": ["cat/a.png"], "label": ["horse"]}, "label: the label 'horse' is no class of this classifier"),
        ({"file": ["cat/a.png"], "label": [1.5]}, "a label is a class index or a class name, not a number with decimals"),
        ({"file": ["cat/a.png"], "label": [7]}, r"label 7 is out of range \(0 to 2\)"),
        ({"file": ["cat/a.png"], "boxes": ["1,2"]}, "boxes are lists of x0, y0, x1, y1 in pixels"),
        ({"file": ["cat/a.png"], "sha256": ["abc"]}, "sha256 is 'abc'; give the 64 hexadecimal digits"),
        ({"file": ["cat/a.png"], "sha256": ["0" * 64]}, "does not have the SHA-256 checksum that the list states"),
        ({"file": ["cat/none.png"]}, r"there is no file '.*none\.png'"),
        ({"file": pa.array([], pa.string())}, "has no rows; there is nothing to explain"),
    ],
)
def test_a_manifest_with_a_mistake_is_refused_in_a_sentence(rows, words, tmp_path):
    with pytest.raises(SnellenError, match=words) as refusal:
        manifest(tmp_path, rows)
    assert "sesame" not in str(refusal.value)


def test_lists_that_are_no_tables_and_options_that_do_not_fit(local, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"no table")
    with pytest.raises(SnellenError, match=r"x\.parquet' cannot be read as a Parquet table"):
        as_samples(tmp_path / "x.parquet")
    with pytest.raises(SnellenError, match=r"none\.parquet' cannot be read \(No such file"):
        as_samples(tmp_path / "none.parquet")
    with pytest.raises(SnellenError, match=r"is a manifest, which brings its own labels; leave out --labels"):
        from_path(f"{local}/photos/list.parquet", geometry=AS_IS, labels="labels.csv")
    with pytest.raises(
        SnellenError, match=r"--root is for manifests, whose rows are below it, but '.*' is a folder of pictures"
    ):
        from_path(f"{local}/photos", geometry=AS_IS, root=local)


def test_a_checksum_of_the_list_is_compared_wherever_the_picture_is(url):
    samples = from_path(f"{url}/photos/list.parquet", geometry=AS_IS, classes=["cat", "dog", "owl"], check="first")
    folder_at(url).write_whole("photos/cat/b.png", encoded(9))
    with pytest.raises(SnellenError, match="does not have the SHA-256 checksum that the list states; correct one of them"):
        samples[1]


# Mistakes ---------------------------------------------------------------------------------------------------------------


def test_places_that_cannot_be_read_are_sentences(on_s3, s3_server):
    for path, words in (
        ("s3://no-such-bucket/photos", "there is no bucket 's3://no-such-bucket'"),
        (f"{on_s3}/none", "holds no pictures"),
        (f"{on_s3}/none.png", "there is nothing at 's3://.*none.png'"),
        (f"{on_s3}/none.parquet", "there is nothing at 's3://.*none.parquet'"),
        (f"{on_s3}/none.tar", "there is nothing at 's3://.*none.tar'"),
        ("ftp://host/photos", "ftp:// is none of"),
    ):
        with pytest.raises(SnellenError, match=words):
            as_samples(path)
    for option in ("labels", "masks", "boxes"):
        with pytest.raises(SnellenError, match=r"there is nothing at 's3://.*/none'|holds no|no mask in"):
            from_path(f"{on_s3}/photos", geometry=AS_IS, **{option: f"{on_s3}/none"})
    denied = error("403 Forbidden", "AccessDenied")
    with (
        s3_server.failing(lambda environ: denied),
        pytest.raises(SnellenError, match="may not be read with your credentials"),
    ):
        as_samples(f"{on_s3}/photos")
    refused = pytest.raises(SnellenError, match=r"'s3://.*/dog/c\.png' may not be read with your credentials")
    with s3_server.failing(lambda environ: denied if environ["PATH_INFO"].endswith("c.png") else None), refused:
        as_samples(f"{on_s3}/photos")


def test_a_shard_that_is_cut_off_is_refused(on_s3, tmp_path):
    whole = shard(NAMES)
    for place in (on_s3, str(tmp_path)):
        folder_at(place).write_whole("cut/x.tar", whole[:1800])
        with pytest.raises(SnellenError, match=r"x\.tar' is cut off: it ends inside of a member; copy it again"):
            as_samples(f"{place}/cut/x.tar")
        folder_at(place).write_whole("cut/x.tar", whole)
        samples = as_samples(f"{place}/cut/x.tar")
        folder_at(place).write_whole("cut/x.tar", whole[:600])
        with pytest.raises(SnellenError, match=r"x\.tar' ends inside 'cat/a\.png'; it was not copied completely"):
            samples[0]


def test_pictures_of_several_stores_are_fetched_together(on_s3, tmp_path):
    fill(folder_at(f"memory://{tmp_path.name}/x"))
    places = [f"{on_s3}/photos/cat/a.png", f"memory://{tmp_path.name}/x/photos/cat/b.png"]
    assert torch.equal(torch.stack([sample.image for sample in as_samples(places)])[0], as_samples(places[0])[0].image)


def test_a_picture_is_read_by_one_request(on_s3, s3_server):
    samples = as_samples(f"{on_s3}/photos")
    s3_server.requests.clear()
    list(samples)
    assert len(s3_server.requests) == len(NAMES)
