"""A folder on object storage behaves as one on a disk does; a second writer is kept out, also when the first was silent."""

from __future__ import annotations

import json
import pickle
import sys
import threading
import uuid

import pytest
from tests.s3_server import error

from snellen.errors import SnellenError
from snellen.files import lease, remote
from snellen.files.folder import LOCK, InUseError, LocalFolder, folder_at
from snellen.files.lease import Lease
from snellen.files.remote import list_url, store_of
from snellen.files.remote_folder import RemoteFolder


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request, tmp_path):
    if request.param == "local":
        return LocalFolder(tmp_path / "run")
    if request.param == "memory":
        return folder_at(f"memory://{uuid.uuid4().hex}/run")
    return folder_at(f"{request.getfixturevalue('bucket')}/runs/mine")


@pytest.fixture
def remote_folder(bucket):
    return RemoteFolder(f"{bucket}/run")


def test_files_are_read_listed_found_moved_and_removed(folder):
    assert folder.list("maps") == {}
    assert folder.parts("truth") == []
    assert folder.find("run.json") == []
    assert not folder.exists("run.json")
    folder.write_whole("maps/b", b"12345")
    folder.write_whole("maps/a", b"1")
    folder.write_whole("maps/deeper/c", b"2")
    folder.write_whole("run.json", b"{}")
    folder.below("inner").write_whole("run.json", b"{}")
    assert folder.list("maps") == {"a": 1, "b": 5}
    assert folder.parts("maps") == ["maps/deeper"]
    assert folder.find("run.json") == ["inner/run.json", "run.json"]
    assert folder.exists("run.json")
    assert folder.read("maps/b") == b"12345"
    assert folder.size("maps/b") == 5
    assert folder.read_range("maps/b", 1, 2) == b"23"
    assert folder.read_range("maps/b", 4, 9) == b"5"
    assert folder.read_range("maps/b", 7, 9) == b""
    state = folder.state("maps/b")
    assert folder.state("maps/b") == state
    folder.write_whole("maps/b", b"54321")
    assert folder.state("maps/b") != state
    folder.move("maps/b", "damaged/maps-b")
    assert not folder.exists("maps/b")
    assert folder.read("damaged/maps-b") == b"54321"
    folder.remove("damaged/maps-b")
    folder.remove("damaged/maps-b")
    for look in (folder.read, folder.state, folder.size):
        with pytest.raises(FileNotFoundError):
            look("damaged/maps-b")
    folder.delete()
    assert folder.find("run.json") == []


def test_a_draft_becomes_a_file_only_when_it_is_adopted(folder):
    with folder.draft() as draft:
        draft.write_bytes(b"whole")
        assert folder.list("maps") == {}
        folder.adopt(draft, "maps/a")
    with folder.draft() as abandoned:
        abandoned.write_bytes(b"given up")
    assert folder.list("maps") == {"a": 5}
    assert folder.list("") == {}
    assert not draft.exists()
    assert not abandoned.exists()


def test_a_second_writer_is_kept_out_until_the_first_leaves(folder):
    again = pickle.loads(pickle.dumps(folder))
    with folder.lock(), pytest.raises(InUseError, match="wait until it ends"), again.lock():
        pass
    with again.lock():
        again.write_whole("run.json", b"{}")


def test_of_writers_that_race_for_a_lock_one_gets_it(bucket):
    gate, entered, refused = threading.Barrier(6), [], []

    def write(number):
        gate.wait(timeout=30)
        try:
            with RemoteFolder(f"{bucket}/run").lock():
                entered.append(number)
                gate.wait(timeout=30)  # holds it until everybody has tried
        except InUseError:
            refused.append(number)
            gate.wait(timeout=30)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert (len(entered), len(refused)) == (1, 5)


def test_a_lock_that_nobody_renewed_is_taken_over_by_one_and_its_owner_writes_nothing_more(remote_folder, monkeypatch):
    monkeypatch.setattr(lease, "BEAT", 60.0)  # silent, as after a kill or a long pause
    with remote_folder.lock():
        remote_folder.write_whole("run.json", b"{}")
        with pytest.raises(InUseError, match=r"if it was killed on '.+', its lock ends by itself in (300|29\d) seconds"):
            Lease(f"{remote_folder}/{LOCK}")._acquire()
        monkeypatch.setattr(lease, "EXPIRES", 0.0)
        second, third = Lease(f"{remote_folder}/{LOCK}"), Lease(f"{remote_folder}/{LOCK}")
        stale = third._read()
        second._acquire()
        monkeypatch.setattr(third, "_read", lambda: stale)  # it looked before the second came in
        with pytest.raises(InUseError):
            third._acquire()
        monkeypatch.setattr(lease, "FRESH", 0.0)
        with pytest.raises(SnellenError, match=r"another run has taken over 's3://.*/run'.*finished work is kept"):
            remote_folder.write_whole("run.json", b"late")
    assert remote_folder.read("run.json") == b"{}"
    assert second._read().owner == second._owner, "who lost a lock does not release it"


def test_a_lock_is_renewed_while_its_owner_works(remote_folder, monkeypatch):
    monkeypatch.setattr(lease, "BEAT", 0.02)
    renewed = threading.Event()
    renew = Lease._renew

    def count(self):
        renew(self)
        if self._count > 8:
            renewed.set()

    monkeypatch.setattr(Lease, "_renew", count)
    with remote_folder.lock():
        assert renewed.wait(timeout=30)
        monkeypatch.setattr(lease, "FRESH", 0.0)
        remote_folder.write_whole("run.json", b"{}")
    held = Lease(f"{remote_folder}/{LOCK}")._read()
    assert held.owner is None
    assert held.count > 8


def test_a_renewal_whose_answer_was_lost_is_recognised(remote_folder):
    mine = Lease(f"{remote_folder}/{LOCK}")
    mine._acquire()
    before = mine._tag
    mine._put(before)  # arrives, but its owner does not hear of it
    mine._count -= 1
    mine._renew()
    assert not mine._lost
    assert mine._tag != before
    mine.check()


@pytest.mark.parametrize("there", [False, True])
def test_a_lock_is_taken_although_the_answer_of_the_store_was_lost(remote_folder, monkeypatch, there):
    if there:
        with remote_folder.lock():
            pass
    mine = Lease(f"{remote_folder}/{LOCK}")
    put, results = mine._put, []

    def lose(condition, **settings):
        tag = put(condition, **settings)
        results.append(tag)
        return None if results.count(None) < len(results) == 1 + there else tag

    monkeypatch.setattr(mine, "_put", lose)
    mine._acquire()
    assert mine._read().owner == mine._owner
    assert mine._tag == mine._read().tag


def test_a_store_that_ignores_conditions_is_refused(remote_folder, s3_server):
    def ignores(environ):
        for header in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
            environ.pop(header, None)

    refused = pytest.raises(SnellenError, match="two runs could write to one folder; choose a local")
    with s3_server.failing(ignores), refused, remote_folder.lock():
        raise AssertionError
    unknown = error("501 Not Implemented", "NotImplemented")
    failing = s3_server.failing(lambda environ: unknown if "HTTP_IF_NONE_MATCH" in environ else None)
    with failing, pytest.raises(SnellenError, match="does not keep to the conditions"), remote_folder.lock():
        raise AssertionError


def test_a_lock_of_something_else_is_refused(remote_folder):
    remote_folder.write_whole(LOCK, b"mine")
    refused = pytest.raises(SnellenError, match=r"run/\.lock' is not the lock of a run; remove it if no run writes there")
    with refused, remote_folder.lock():
        raise AssertionError


def test_a_store_without_conditional_writes_is_read_but_not_written_to(monkeypatch):
    folder = folder_at("memory://bucket/run")
    monkeypatch.setattr(type(store_of("memory://bucket")), "protocol", "gs")
    refused = pytest.raises(SnellenError, match=r"runs are not written to memory://.*choose a local --out, or one on s3://")
    with refused, folder.lock():
        raise AssertionError


def test_a_large_draft_is_uploaded_in_parts_and_one_that_fails_leaves_nothing(remote_folder, s3_server, monkeypatch):
    content = bytes(range(256)) * (45 << 10)  # 11.25 MiB: three parts of 5 MiB, the smallest of S3
    store = store_of(str(remote_folder))
    put_file = store.put_file
    monkeypatch.setattr(store, "put_file", lambda *args: put_file(*args, chunksize=5 << 20))
    with remote_folder.draft() as draft:
        draft.write_bytes(content)
        denied = error("403 Forbidden", "AccessDenied")
        failing = s3_server.failing(lambda environ: denied if "partNumber=2" in environ["QUERY_STRING"] else None)
        with failing, pytest.raises(SnellenError, match="may not be written to with your credentials"):
            remote_folder.adopt(draft, "scores.parquet")
        assert not remote_folder.exists("scores.parquet")
        remote_folder.adopt(draft, "scores.parquet")
    assert remote_folder.read("scores.parquet") == content


def test_uploads_that_a_killed_writer_left_are_given_up(remote_folder):
    store = store_of(str(remote_folder))
    bucket = str(remote_folder).split("/")[2]
    for key in ("run/maps/a", "other/a"):
        store.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
    remote_folder.sweep()
    left = store.call_s3("list_multipart_uploads", Bucket=bucket).get("Uploads", [])
    assert [upload["Key"] for upload in left] == ["other/a"]


def test_what_a_store_cannot_do_for_a_moment_is_tried_again(remote_folder, s3_server):
    refused = [error("503 Slow Down", "SlowDown"), error("500 Internal Server Error", "InternalError")]
    with s3_server.failing(lambda environ: refused.pop() if refused else None):
        remote_folder.write_whole("run.json", b"{}")
    assert not refused
    assert remote_folder.read("run.json") == b"{}"


def test_a_failing_store_is_never_taken_for_a_missing_file(remote_folder, s3_server, monkeypatch):
    remote_folder.write_whole("run.json", b"{}")
    with s3_server.failing(lambda environ: error("403 Forbidden", "AccessDenied")):
        for look in (remote_folder.read, remote_folder.exists, remote_folder.list):
            with pytest.raises(SnellenError, match="may not be read with your credentials; ask for the right to"):
                look("run.json")
        with pytest.raises(SnellenError, match="may not be written to with your credentials"):
            remote_folder.write_whole("run.json", b"{1}")


def test_a_bucket_that_does_not_exist_is_named(s3_server):
    folder = folder_at("s3://no-such-bucket/run")
    for act in (lambda: folder.exists("run.json"), lambda: folder.write_whole("a", b""), folder.lock().__enter__):
        with pytest.raises(SnellenError, match="there is no bucket 's3://no-such-bucket'; check its name and the endpoint"):
            act()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("https://host/run", "https:// is none of s3://"),
        ("s3://", "names no bucket"),
        ("s3://key:sec/ret@bucket/run", "a URL that starts with 's3://' holds credentials"),
        ("s3://bucket/a/../b", "holds '..'"),
        ("s3://a::memory://b", "chains several URLs"),
    ],
)
def test_urls_that_are_not_read_are_refused_without_repeating_secrets(url, sentence):
    with pytest.raises(SnellenError, match=r"\w") as refusal:
        folder_at(url)
    assert sentence in str(refusal.value)
    assert "ret@" not in str(refusal.value)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    remote._opened.cache_clear()
    with pytest.raises(SnellenError, match=r"s3:// needs a package that is not installed; install snellen\[remote\]"):
        folder_at("s3://bucket/run").exists("run.json")


def test_no_credentials_and_no_answer_are_sentences(s3_server, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        remote._opened.cache_clear()
        with pytest.raises(SnellenError, match="there are no credentials for 's3://bucket'; set those"):
            folder_at("s3://bucket/run").read("run.json")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        patch.setattr(remote, "ATTEMPTS", 1)
        remote._opened.cache_clear()
        with pytest.raises(SnellenError, match="the store of 's3://bucket' does not answer; check the network"):
            folder_at("s3://bucket/run").read("run.json")
    remote._opened.cache_clear()


def test_a_listing_goes_over_pages(bucket, monkeypatch):
    folder = RemoteFolder(f"{bucket}/run")
    for number in range(5):
        folder.write_whole(f"maps/{number}", b"x")
    store = store_of(bucket)
    call = store.call_s3
    monkeypatch.setattr(store, "call_s3", lambda method, **settings: call(method, **settings, MaxKeys=2))
    assert [entry.name for entry in list_url(f"{bucket}/run")] == [f"maps/{number}" for number in range(5)]


def test_a_lock_says_whose_it_is(remote_folder):
    with remote_folder.lock():
        assert set(json.loads(remote_folder.read(LOCK))) == {"owner", "count", "host"}
