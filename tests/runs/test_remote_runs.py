"""A run on object storage is the run that a disk would have, and every command that reads runs takes its URL."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.runs.subject import write_images
from tests.runs_v1.subject import classifier, samples
from tests.s3_server import error
from typer.testing import CliRunner

from snellen import Options, Run, SnellenError, evaluate
from snellen.cli.main import app
from snellen.files import lease
from snellen.files.folder import LOCK, folder_at
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.runs.verify import verify

METHODS = ["gradient", "grad-cam", "random"]
METRICS = ["deletion(steps=4)", "complexity"]
OPTIONS = Options(shard=4, threads=1, engine="eager")


def run(out, *, methods=METHODS, count=4, **settings) -> Run:
    return evaluate(
        classifier(),
        samples(count),
        methods=methods,
        metrics=METRICS,
        out=out,
        options=OPTIONS,
        observer=Silent(),
        **settings,
    )


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Run:
    return run(tmp_path_factory.mktemp("local") / "mine")


def test_the_same_numbers_come_from_a_disk_and_from_object_storage(local, bucket):
    url = f"{bucket}/runs/mine"
    stored = run(url)
    assert str(stored.folder) == url
    again = Run(url)
    assert again.scores().equals(local.scores())
    assert folder_at(url).read("scores.parquet") == folder_at(local.folder).read("scores.parquet")
    assert np.array_equal(again.maps("grad-cam"), local.maps("grad-cam"))
    assert again.verdicts().summary.equals(local.verdicts().summary)
    assert folder_at(url).exists("verdicts.json")
    assert again.report() == f"{url}/report.html"
    assert folder_at(url).read("report.html").startswith(b"<!")
    assert verify(bucket).problems == []
    assert verify(bucket).files > 5


@pytest.mark.slow
def test_what_is_finished_is_not_computed_again(local, bucket, s3_server):
    url = f"{bucket}/mine"
    run(url, methods=METHODS[:2])
    s3_server.requests.clear()
    assert run(url).scores().equals(local.scores())
    first = run(url)
    written = [path for method, path in s3_server.requests if method == "PUT" and "/maps/" in path]
    assert len(written) == len(set(written))
    assert first.complete


@pytest.mark.slow
def test_a_damaged_object_is_found_and_computed_again(local, bucket):
    url = f"{bucket}/mine"
    run(url)
    folder = folder_at(url)
    part, name = next((part, name) for part in ("maps", "segments") for name in folder.list(part))
    folder.write_whole(f"{part}/{name}", b"something else")
    assert len(verify(url).problems) >= 1
    assert run(url).scores().equals(local.scores())
    assert verify(url).problems == []


def test_work_that_a_store_interrupts_is_kept_and_the_same_call_continues(local, bucket, s3_server):
    url, denied = f"{bucket}/mine", error("403 Forbidden", "AccessDenied")
    puts = []

    def later(environ):
        if environ["REQUEST_METHOD"] == "PUT" and not environ["PATH_INFO"].endswith(LOCK):
            puts.append(environ["PATH_INFO"])
            return denied if len(puts) > 3 else None
        return None

    with s3_server.failing(later), pytest.raises(SnellenError, match="may not be written to with your credentials"):
        run(url)
    before = {name for part in ("maps", "segments") for name in folder_at(url).list(part)}
    assert run(url).scores().equals(local.scores())
    assert before <= {name for part in ("maps", "segments") for name in folder_at(url).list(part)}


@pytest.mark.slow
def test_commands_take_the_url_of_a_run(bucket, tmp_path):
    url, go = f"{bucket}/mine", CliRunner().invoke
    arguments = ["--model", "digits", "--images", "zoo:digits", "--methods", "gradient,random", "--metrics", "complexity"]
    done = go(app, ["run", *arguments, "--out", url, "--threads", "1"])
    assert done.exit_code == 0, done.output
    assert f"{url}/report.html" in done.output.replace("\n", "")
    for words in (
        ["resume", url],
        ["verify", url],
        ["report", url, "--out", str(tmp_path / "page.html")],
        ["compare", "gradient", "random", "--run", url],
        ["cards", "--no-measure", "--run", url, "--out", str(tmp_path / "cards")],
    ):
        done = go(app, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["report", "RUN", "--out", "s3://bucket/page.html"],
        ["cards", "--run", "RUN", "--out", "s3://bucket/cards"],
        ["explain", "s3://bucket/a.png", "--methods", "gradient"],
        ["suite", "--out", "s3://bucket/suite"],
    ],
)
def test_paths_that_cannot_be_urls_are_refused_in_a_sentence(words, local):
    done = CliRunner().invoke(app, [str(local.folder) if word == "RUN" else word for word in words])
    assert isinstance(done.exception, SnellenError)
    assert "on this computer, not" in str(done.exception)
    assert "'s3://bucket/" in str(done.exception)


def test_a_url_without_a_run_is_refused(bucket, s3_server):
    with pytest.raises(SnellenError, match=r"'s3://.*/none' is not a run folder: it has no run\.json"):
        Run(f"{bucket}/none")
    with pytest.raises(SnellenError, match="there is no bucket 's3://no-such-bucket'"):
        Run("s3://no-such-bucket/mine")
    with pytest.raises(SnellenError, match="there is no bucket 's3://no-such-bucket'"):
        run("s3://no-such-bucket/mine")
    denied = error("403 Forbidden", "AccessDenied")
    refused = pytest.raises(SnellenError, match=r"'s3://.*' may not be written to with your credentials")
    with s3_server.failing(lambda environ: denied if environ["REQUEST_METHOD"] == "PUT" else None), refused:
        run(f"{bucket}/mine")


def test_two_runs_never_write_to_one_folder(bucket):
    refused = pytest.raises(
        SnellenError, match="is being written by another run; wait until it ends or choose another --out"
    )
    with folder_at(f"{bucket}/mine").lock(), refused:
        run(f"{bucket}/mine")


KILLED = """
import sys
from snellen.runs import unit_writer
from tests.runs.test_remote_runs import run

unit_writer.FLUSH_SECONDS = 0.0  # else so short a run writes all at its end
run(sys.argv[1], count=60)
"""


@pytest.mark.slow
def test_a_killed_run_is_continued_once_its_lock_has_expired(bucket, monkeypatch):
    url = f"{bucket}/mine"
    process = subprocess.Popen([sys.executable, "-c", KILLED, url])
    folder, deadline = folder_at(url), time.monotonic() + 60
    while sum(len(folder.list(part)) for part in ("maps", "segments")) < 2 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    with pytest.raises(SnellenError, match=r"if it was killed on '.*', its lock ends by itself in \d+ seconds"):
        run(url, count=60)
    monkeypatch.setattr(lease, "EXPIRES", 0.0)
    assert run(url, count=60).complete
    assert verify(url).problems == []


# Pictures on object storage ---------------------------------------------------------------------------------------------


@pytest.fixture
def photos(bucket, tmp_path) -> tuple[str, str]:
    """The same pictures at a URL and in a local folder."""
    write_images(tmp_path / "photos", count=6, side=8)
    for path in sorted((tmp_path / "photos").rglob("*.png")):
        folder_at(f"{bucket}/photos").write_whole(path.relative_to(tmp_path / "photos").as_posix(), path.read_bytes())
    return f"{bucket}/photos", str(tmp_path / "photos")


def of(pictures, out=None, **options) -> Run:
    chosen = Options(shard=2, threads=1, engine="eager", **options)
    return evaluate(
        classifier(),
        pictures,
        methods=["gradient", "random"],
        metrics=["complexity"],
        out=out,
        options=chosen,
        observer=Silent(),
    )


def test_evaluate_takes_the_url_of_pictures(photos):
    url, local_path = photos
    assert of(url).scores().equals(of(local_path).scores())


@pytest.mark.slow
def test_two_workers_read_pictures_and_the_client_writes_on_object_storage(photos, bucket):
    url, local_path = photos
    assert of(url, f"{bucket}/mine", workers=2).scores().equals(of(local_path).scores())
    assert verify(f"{bucket}/mine").problems == []


BROKEN = """
import os, sys
from pathlib import Path
from snellen.images import samples as samples_module
from snellen.images.any_source import from_path
from tests.runs.test_remote_runs import classifier, of

samples_module.FIRST = 2
pictures = from_path(sys.argv[1], geometry=classifier().geometry, check="first")
last = Path(sys.argv[1]) / "005.png"
content, times = last.read_bytes(), last.stat()
last.write_bytes(content[:20] + bytes(len(content) - 20))
os.utime(last, ns=(times.st_atime_ns, times.st_mtime_ns))
of(pictures)
"""


@pytest.mark.slow
def test_a_broken_picture_that_was_not_loaded_first_stops_the_run_with_its_sentence(tmp_path):
    write_images(tmp_path, count=6, side=8)  # in a process of its own: checks of types load some samples on their way
    done = subprocess.run([sys.executable, "-c", BROKEN, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.stderr.rstrip().splitlines()[-1].startswith("snellen.")
    assert "005.png' is not a picture that can be read" in done.stderr


def test_a_request_says_whether_only_the_first_pictures_were_loaded(photos):
    _, local_path = photos
    for check, stored in (("first", {"images": local_path, "check": "first"}), ("all", {"images": local_path})):
        settings = Settings(images=local_path, check=check)
        assert settings._request(settings.samples(classifier(), Silent())) == stored
        assert Settings.of_request(stored).check == check
