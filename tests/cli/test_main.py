"""The command line as a person uses it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from PIL import Image
from tests import command
from tests.runs.subject import write_images

from snellen.files.integrity import dump_record

HERE = Path(__file__).parents[1] / "runs"
DIGITS = ["--model", "digits", "--images", "zoo:digits"]
BASICS = ["--model", "subject:load", "--size", "32", "--threads", "1"]


def snellen(*words: object, cwd: Path = HERE) -> subprocess.CompletedProcess[str]:
    return command.snellen(*words, cwd=cwd)


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return write_images(tmp_path_factory.mktemp("cli") / "images", count=4)


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("cli-run") / "mine"
    done = snellen(
        "run", *BASICS, "--images", images, "--out", out,
        "--methods", "grad-cam,rise(masks=30),random", "--metrics", "deletion,insertion",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, done.stdout + done.stderr


def test_run_writes_a_folder_and_a_report_and_says_where(finished):
    out, output = finished
    assert (out / "report.html").stat().st_size > 10_000
    assert "report.html" in output
    assert "planned:" in output
    assert "grad-cam" in output


@pytest.mark.slow
def test_a_settings_file_gives_the_same_numbers(finished, images, tmp_path):
    out, _ = finished
    settings = tmp_path / "mine.toml"
    settings.write_text(
        f'model = "subject:load"\nsize = 32\nthreads = 1\nimages = "{images}"\nout = "{tmp_path / "again"}"\n'
        'methods = ["grad-cam", {name = "rise", params = {masks = 30}}, "random"]\nmetrics = ["deletion", "insertion"]\n'
    )
    assert snellen("run", settings).returncode == 0
    assert (tmp_path / "again" / "scores.parquet").read_bytes() == (out / "scores.parquet").read_bytes()
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(f"model: subject:load\nsize: 32\nthreads: 1\nimages: {images}\n"
                    "methods: [grad-cam, rise(masks=30), random]\nmetrics: [deletion, insertion]\n")  # fmt: skip
    assert snellen("run", yaml, "--out", tmp_path / "third").returncode == 0
    assert (tmp_path / "third" / "scores.parquet").read_bytes() == (out / "scores.parquet").read_bytes()


def test_resume_and_report_find_everything_in_the_folder(finished):
    out, _ = finished
    done = snellen("resume", out)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 units are already finished" in done.stderr
    (out / "report.html").unlink()
    assert snellen("report", out).returncode == 0
    assert (out / "report.html").exists()


def test_resume_of_a_run_made_in_python_says_how_to_go_on(finished, tmp_path):
    out, _ = finished
    record = json.loads((out / "run.json").read_text()) | {"request": None}
    (tmp_path / "run.json").write_bytes(dump_record(record))
    done = snellen("resume", tmp_path)
    assert done.returncode == 2
    assert "call snellen.evaluate" in done.stderr


def test_explain_draws_one_picture(images, tmp_path):
    done = snellen("explain", images / "000.png", *BASICS[:4], "--methods", "gradient,grad-cam",
                   "--out", tmp_path / "maps.png")  # fmt: skip
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "maps.png") as picture:
        assert picture.width > 600


def test_explain_takes_class_names_and_shows_notes_about_the_photo(images, tmp_path):
    with Image.open(images / "000.png") as first, Image.open(images / "001.png") as second:
        first.save(tmp_path / "pages.tif", save_all=True, append_images=[second])
    (tmp_path / "names.txt").write_text("\n".join(f"name{place}" for place in range(5)))
    done = snellen("explain", tmp_path / "pages.tif", *BASICS[:4], "--methods", "gradient", "--target", "name1",
                   "--classes", tmp_path / "names.txt", "--out", tmp_path / "maps.png")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pages.tif' holds several frames; only the first is used".replace(" ", "") in "".join(done.stderr.split())


@pytest.mark.slow
def test_explain_without_methods_leaves_out_those_that_refuse_the_model(images, tmp_path):
    done = snellen(
        "explain", images / "001.png", "--model", "subject:logits_of", "--size", "32", "--out", tmp_path / "maps.png"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "maps.png").exists()


@pytest.mark.slow
def test_explain_without_methods_leaves_out_those_that_refuse_a_target(images, tmp_path):
    words = ("explain", images / "001.png", "--model", "subject:logits_of", "--size", "32", "--out", tmp_path / "maps.png")
    done = snellen(*words, "--target", "1", "--target", "subject:second_minus_first")  # rise reads a probability
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "maps.png").exists()
    done = snellen(*words, "--target", "label")
    assert done.returncode == 2
    assert "the label of a photograph is not known here" in done.stderr


@pytest.mark.parametrize("what", ["methods", "metrics", "conditions", "models"])
def test_list_prints_names(what):
    done = snellen("list", what)
    assert done.returncode == 0, done.stderr
    word = {"methods": "grad-cam", "metrics": "insertion", "conditions": "resize(side=64)", "models": "snellen[timm]"}[what]
    assert word in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "--methods", "gradcam", "--metrics", "deletion"], "unknown method 'gradcam'; did you mean 'grad-cam'?"),
        (["run", "--methods", "gradient", "--metrics", "complexity", "--model", "nowhere:load"], "nowhere"),
        (["run", "--methods", "gradient", "--metrics", "complexity", "--model", "subject:lod"], "did you mean 'load'?"),
        (["run", "missing.yaml"], "cannot read the settings 'missing.yaml'"),
        (
            ["run", *BASICS, "--methods", "gradient", "--metrics", "complexity", "--images", "no-such-folder"],
            "no-such-folder",
        ),
        (["run", "--mean", "grey"], "--mean must be comma-separated numbers"),
        (
            ["run", "--methods", "gradient", "--metrics", "complexity", "--condition", "rotate"],
            "unknown condition 'rotate'; did you mean 'rotation'?",
        ),
        (
            ["run", *DIGITS, "--methods", "gradient", "--metrics", "complexity", "--labels", "mine.csv"],
            "zoo:digits bring their own labels and truth; leave out --labels 'mine.csv'",
        ),
        (["run", "--methods", "gradient", "--metrics", "complexity", "--out", ""], "the word after '--out' is empty"),
        (["cards", "--run", "no-such-run", "--out="], "the word after '--out' is empty"),
        (["explain", ""], "the word after 'explain' is empty"),
        (["study", "new", " ", "--run", "no-such-run"], "the word after 'new' is empty"),
        (["reproduce", "zhang2024-tabel1"], "did you mean 'zhang2024-table1'?"),
        (["suite", "--methods", "gradcam"], "did you mean 'grad-cam'?"),
        (["list", "metric"], "did you mean 'metrics'?"),
        (["report", "no-such-run"], "is not a run folder"),
        (["explain", "no-such-photo.jpg"], "no-such-photo.jpg"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(words, sentence):
    done = snellen(*words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_an_unwritable_folder_is_refused(images, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    done = snellen(
        "run", *BASICS, "--images", images, "--methods", "random", "--metrics", "complexity", "--out", tmp_path / "taken"
    )
    assert done.returncode == 2
    assert "choose another --out" in done.stderr
