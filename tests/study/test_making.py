from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from rich.console import Console
from torch import nn
from typer.testing import CliRunner

from snellen.charts import pictures
from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.runs import Run, evaluate
from snellen.runs.progress import Silent
from snellen.runs.reload import reload_subject
from snellen.runs.settings import Settings
from snellen.study.duration import minutes
from snellen.study.folder import Study
from snellen.study.making.make import make, read_tasks
from snellen.study.making.preview import StudyPreview, groups
from snellen.study.making.protocol_file import COMMENTS, protocol_text
from snellen.study.protocol import Exclusion, Protocol
from snellen.study.tasks import TASKS
from snellen.study.web.sentences import check_texts
from snellen.zoo import digit_samples

ARMS = ["grad-cam", "lime", "random", "none"]
TASKS_OF_DIGITS = "error-detection:4:1,class-accuracy:4:1,confidence:3:1,sharpness:3:1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """64 scenes of digits, turned so far that the model errs."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    methods = ("grad-cam", "lime(samples=20)", "gradient", "gradient(fold=sum)", "random")
    values = {"model": "digits", "images": "zoo:digits", "condition": "rotation(degrees=40)", "methods": methods}
    return Settings.of({**values, "metrics": ("sparseness",), "out": str(out)}).run(Silent())


def _values(**changes: Any) -> dict[str, Any]:
    return {"arms": ARMS, "tasks": read_tasks(TASKS_OF_DIGITS), "presentation": ["overlay", "side-by-side", "map"]} | changes


@pytest.fixture(scope="module")
def study(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make(run.folder, tmp_path_factory.mktemp("studies") / "first", _values(), observer=Silent())


def _picture(study: Study, name: str) -> np.ndarray:
    with Image.open(study.folder / "pictures" / name) as image:
        return np.asarray(image.convert("RGB"))


@pytest.fixture(scope="module")
def photos(run: Run) -> dict[str, np.ndarray]:
    """The images as the model saw them; a run keeps those of its first dozen, which are compared here."""
    _, samples = reload_subject(run, None, None, Silent(), usage="")
    photos = {sample.id: (255 * sample.image).round().byte().permute(1, 2, 0).numpy() for sample in samples}
    kept = run.record.samples.pictures
    assert len(kept) == 12
    assert all((run.picture(sample) == photos[sample]).all() for sample in kept)
    return photos


def test_every_picture_is_the_map_of_its_arm_drawn_by_the_rule_of_all(
    run: Run, study: Study, photos: dict[str, np.ndarray]
) -> None:
    shown = [
        (name, sample, picture)
        for item in study.items
        for name, some in item.pictures.items()
        for sample, picture in zip(item.samples, some, strict=True)
    ]
    assert len(shown) == 10 * sum(len(item.samples) for item in study.items)
    for name, sample, picture in shown:
        arm, _, presentation = name.partition("/")
        pixels, photo = _picture(study, picture.name), photos[sample]
        assert pixels.shape == (picture.height, picture.width, 3)
        if arm == "none":
            assert (pixels == _large(photo)).all()
            continue
        values = np.maximum(run.maps(arm, [sample])[0], 0)
        ends = pictures.limits(values, False)
        alone = pictures.tile(values, False, ends)
        if presentation == "side-by-side":
            assert (pixels[:, :320] == _large(photo)).all()
            assert (pixels[:, -320:] == _large(alone)).all()
        else:
            expected = alone if presentation == "map" else pictures.overlay(photo, values, False, ends)
            assert (pixels == _large(expected)).all()


def test_where_maps_lie_over_a_grey_copy_those_without_maps_see_that_copy(
    run: Run, photos: dict[str, np.ndarray], tmp_path: Path
) -> None:
    values = {"arms": ["grad-cam", "none"], "tasks": [{"task": "confidence", "items": 2, "practice": 0}]}
    study = make(run.folder, tmp_path / "grey", values, observer=Silent())
    for item in study.items:
        pixels = _picture(study, item.pictures["none"][0].name)
        assert (pixels[..., 0] == pixels[..., 1]).all()
        assert (pixels == _large(pictures.overlay(photos[item.samples[0]], np.zeros((32, 32)), False, (0.0, 0.0)))).all()


def _large(picture: np.ndarray) -> np.ndarray:
    return picture.repeat(10, axis=0).repeat(10, axis=1)


def test_the_truth_is_what_the_run_says(run: Run, study: Study) -> None:
    facts = run.samples().set_index("sample")
    right = facts["label"] == facts["prediction"]
    share = right.groupby(facts["label_name"]).mean()
    for item in study.items:
        rows = facts.loc[list(item.samples)]
        assert item.predictions == tuple(rows["prediction_name"])
        if item.task == "error-detection":
            assert item.truth == float(not right[item.samples[0]])
        elif item.task == "confidence":
            assert right[item.samples[0]]
            assert item.truth == pytest.approx(100 * rows["probability"].iloc[0], abs=0.01)
        elif item.task == "class-accuracy":
            assert set(rows["label_name"]) == {item.about}
            assert item.truth == pytest.approx(100 * share[item.about], abs=0.01)
            facts_of_class = study.subject["classes"][item.about]
            assert facts_of_class["images"] == (facts["label_name"] == item.about).sum()
        else:
            assert item.truth is None
    answers = Counter(item.truth for item in study.items if item.task == "error-detection" and not item.practice)
    assert answers == {0.0: 2, 1.0: 2}


def test_names_sizes_and_files_tell_nothing_of_arm_or_truth(study: Study) -> None:
    names = list(study.by_picture)
    there = list((study.folder / "pictures").iterdir())
    assert sorted(path.name for path in there) == sorted(names)
    assert all(re.fullmatch(r"[0-9a-f]{32}\.webp", name) for name in names)
    assert len({path.stat().st_mtime for path in there}) == 1
    for item in study.items:
        sizes = {name: {(picture.width, picture.height) for picture in some} for name, some in item.pictures.items()}
        for presentation in ("overlay", "side-by-side", "map"):
            assert len({frozenset(own) for name, own in sizes.items() if name.endswith(f"/{presentation}")}) == 1
        assert sizes["none"] == sizes["grad-cam/overlay"] == sizes["grad-cam/map"]
    for path in there:
        with Image.open(path) as picture:
            assert picture.format == "WEBP"
            assert not set(picture.info) & {"exif", "xmp", "icc_profile", "comment"}


def test_a_placebo_and_methods_with_signs_are_drawn_like_all_others(
    run: Run, tmp_path: Path, photos: dict[str, np.ndarray]
) -> None:
    arms = ["random", "gradient", "gradient(fold=sum)"]
    study = make(run.folder, tmp_path / "s", {"arms": arms, "tasks": read_tasks("sharpness:2:0")}, observer=Silent())
    assert study.protocol.arms == tuple(arms)
    sample, drawn = study.items[0].samples[0], study.items[0].pictures
    values = run.maps("gradient(fold=sum)", [sample])[0]
    assert (values < 0).any()
    shown = _picture(study, drawn["gradient(fold=sum)/overlay"][0].name)
    positive = np.maximum(values, 0)
    assert (shown == _large(pictures.overlay(photos[sample], positive, False, pictures.limits(positive, False)))).all()
    assert (shown != _large(pictures.overlay(photos[sample], values, True, pictures.limits(values, True)))).any()


def test_the_same_seed_chooses_the_same_images_and_another_one_others(run: Run, tmp_path: Path) -> None:
    values = {"arms": ["grad-cam"], "tasks": read_tasks("sharpness:6:0")}
    chosen = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        study = make(run.folder, tmp_path / name, values | {"seed": seed}, observer=Silent())
        chosen.append([item.samples for item in study.items])
    assert chosen[0] == chosen[1] != chosen[2]


def test_the_folder_has_everything_and_its_texts_hold(study: Study) -> None:
    names = {str(path.relative_to(study.folder)) for path in study.folder.rglob("*") if path.parent.name != "pictures"}
    assert names == {
        "pictures", "questionnaires", "questionnaires/satisfaction.yaml", "questionnaires/trust.yaml", "secret.json",
        "stimuli.json", "study.yaml", "texts", "texts/de.yaml", "texts/en.yaml",
    }  # fmt: skip
    assert (study.folder / "secret.json").stat().st_mode & 0o077 == 0
    assert set(check_texts(study)) == {"en", "de"}
    assert study.subject["model"] == "digits"
    assert not study.admits("")


def test_every_setting_has_a_comment_and_the_file_says_what_the_protocol_said(study: Study) -> None:
    assert set(COMMENTS) == {field.name for field in fields(Protocol)}
    text = protocol_text(study.protocol)
    assert Protocol.of(yaml.safe_load(text), "again") == study.protocol
    assert (study.folder / "study.yaml").read_text() == text
    for values in ({"title": "Ja: # 'nein'", "return_link": "https://x.org/?c={code}", "recruiting": ["PID"], "people": 7},):
        changed = Protocol.of(study.protocol.as_values() | values, "changed")
        assert Protocol.of(yaml.safe_load(protocol_text(changed)), "again") == changed


def test_settings_marked_free_are_those_that_the_digest_leaves_out(study: Study) -> None:
    other: dict[str, Any] = {
        "title": "x", "run": "x", "languages": ("en",), "people": 3, "abandoned": 5.0, "recruiting": ("a",),
        "return_link": "x", "alpha": 0.01, "margin": 0.4, "seed": 5, "attention": 1, "scales": (), "exclude": Exclusion(1),
        "presentation": ("map",), "arms": ("grad-cam",), "tasks": study.protocol.tasks[1:],
    }  # fmt: skip
    assert set(other) | {"design"} == set(COMMENTS)
    for name, value in other.items():
        changed = replace(study, protocol=replace(study.protocol, **{name: value}))
        assert (changed.digest == study.digest) == COMMENTS[name].startswith("[free]"), name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms": ["gradcam"]}, "has no method 'gradcam'; did you mean 'grad-cam'"),
        ({"arms": ["gradient", "grad-cam"], "tasks": read_tasks("forward-selection:2:0")}, "enough for 1 item"),
        ({"arms": ["lime", "lime(samples=20)"]}, "names one of its arms twice"),
        ({"arms": ["none"]}, "needs an arm with maps"),
        ({"arms": []}, "has no 'arms'"),
        ({"languages": ["en", "fr"]}, "no texts in 'fr', only de, en; .* texts/fr.yaml"),
        ({"scales": ["joy"]}, "no questionnaire 'joy', only satisfaction, trust"),
        ({"arm": ["grad-cam"]}, "unknown setting 'arm'; did you mean 'arms'"),
        ({"tasks": [{"task": "sharpness", "items": 63, "practice": 2}]}, "64 images for it; give sharpness:62"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing_behind(
    run: Run, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SnellenError, match=words):
        make(run.folder, tmp_path / "s", _values(**changes), observer=Silent())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(SnellenError, match="exists and is not empty"):
        make(run.folder, tmp_path / "mine", _values(), observer=Silent())
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"
    (tmp_path / "empty").mkdir()
    assert make(run.folder, tmp_path / "empty", _values(tasks=read_tasks("sharpness:1:0")), observer=Silent()).items


def test_a_failure_while_drawing_leaves_nothing_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from snellen.study.making import rendering

    calls = []

    def breaks(*arguments: object) -> bytes:
        calls.append(arguments)
        if len(calls) > 3:
            raise OSError("no space left on device")
        return b"x"

    monkeypatch.setattr(rendering, "encoded", breaks)
    with pytest.raises(OSError, match="no space"):
        make(run.folder, tmp_path / "s", _values(), observer=Silent())
    assert list(tmp_path.iterdir()) == []


class _Blind(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([inputs.mean(dim=(1, 2, 3)), inputs.amax(dim=(1, 2, 3))], dim=1)


def test_a_run_of_python_objects_gets_them_again(tmp_path: Path) -> None:
    pictures = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    model = _Blind()
    run = evaluate(model, pictures, methods=["gradient"], metrics=None, out=tmp_path / "run", observer=Silent())
    values = {"arms": ["gradient"], "tasks": read_tasks("sharpness:4:1")}
    with pytest.raises(SnellenError, match=r"made from Python objects.*classifier=\.\.\., samples=\.\.\."):
        make(run.folder, tmp_path / "s", values, observer=Silent())
    with pytest.raises(SnellenError, match="made with other images"):
        make(run.folder, tmp_path / "s", values, classifier=model, samples=pictures.flip(0), observer=Silent())
    made = make(run.folder, tmp_path / "s", values, classifier=model, samples=pictures, observer=Silent())
    assert made.items[1].predictions == ("class 1",)
    assert made.subject["notes"] == ["6 images without a label can be shown for sharpness only"]
    with pytest.raises(SnellenError, match="no image of the run has a label"):
        make(run.folder, tmp_path / "t", values | {"tasks": read_tasks("betting:2:0")}, classifier=model, samples=pictures)


def test_what_participants_meet_is_told_before_anybody_comes(study: Study) -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(StudyPreview(study))
    text = console.export_text()
    counts = groups(study)
    assert len(counts) == 10
    for group, counted in enumerate(counts):
        pages = study.pages(group, 0)
        assert counted.pages == len(pages)
        assert counted.minutes == minutes(pages)
        assert 0 < counted.bytes < 1_000_000
    assert f"{counts[0].pages}" in text
    assert "participants who miss more than 0 of 2 attention checks" in text
    assert "estimates" in text
    assert "lime(samples=20)/side-by-side" in text
    # A participant of the arm without maps rates no sharpness.
    assert counts[-1].trials == counts[0].trials - 3


def test_the_command_makes_a_study_tells_the_password_once_and_checks_it(run: Run, tmp_path: Path) -> None:
    protocol = tmp_path / "protocol.yaml"
    protocol.write_text(
        yaml.safe_dump(
            {"title": "From a file", "arms": ["grad-cam", "none"], "run": str(run.folder), "languages": ["en"], "seed": 4}
        )
    )
    out = tmp_path / "study"
    runner = CliRunner()
    words = ["study", "new", str(out), str(protocol), "--tasks", "sharpness:3:1,confidence:3:0", "--title", "From the line"]
    result = runner.invoke(app, words)
    assert result.exit_code == 0, result.output
    content = Study.read(out)
    assert (content.protocol.title, content.protocol.seed, content.protocol.languages) == ("From the line", 4, ("en",))
    match = re.search(r"printed only now: (\S+)", result.output)
    assert match is not None
    assert content.admits(match[1])
    for row in content.subject["chosen"]:
        assert row["task"] in result.output
    checked = runner.invoke(app, ["study", "check", str(out)])
    assert checked.exit_code == 0, checked.output
    assert match[1] not in checked.output
    assert "From the line" in checked.output
    (out / "texts" / "en.yaml").write_text("consent: {heading: Hello}")
    broken = runner.invoke(app, ["study", "check", str(out)])
    assert isinstance(broken.exception, SnellenError)


@pytest.mark.parametrize("text", ["sharpness:x", "sharpness:1:2:3", "sharpnes:3", "betting:-1"])
def test_tasks_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SnellenError, match="task"):
        read_tasks(text)


def test_stimuli_never_hold_a_path_and_only_known_keys(study: Study) -> None:
    made = json.loads((study.folder / "stimuli.json").read_text())
    assert set(made) == {"schema", "subject", "items"}
    assert all(
        "/" not in picture["name"] for item in made["items"] for some in item["pictures"].values() for picture in some
    )
    assert {item.task for item in study.items} <= set(TASKS)
    assert len(digit_samples()) == study.subject["images"]
