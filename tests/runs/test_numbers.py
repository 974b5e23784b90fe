"""A model that estimates a number: its labels are numbers, and its mean absolute error stands where accuracy does."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import from_arrays
from snellen.images.geometry import Geometry
from snellen.report.notebook import run_summary
from snellen.report.page import page
from snellen.report.saliency_maps import explain
from snellen.report.summary_table import summary_table
from snellen.runs import Run, evaluate
from snellen.runs.number_error import number_error
from snellen.runs.progress import Silent
from snellen.runs.score import score
from snellen.types import Sample

SIDE = 8
GREYS = (51, 102, 153)
AGES = (21.0, 38.0, 64.0)
"""The model says 20, 40 and 60: it is off by 1, 2 and 4."""
RANGE = "number(unit=years, low=0, high=100)"


class Brightness(nn.Module):
    """A hundred times the mean of all pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(100.0))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scale * inputs.mean((1, 2, 3))[:, None]


def model(heads: str = RANGE, **settings: Any) -> Classifier:
    return Classifier(Brightness(), name="age", geometry=Geometry((SIDE, SIDE)), heads=heads, **settings)


def pixels() -> Tensor:
    return torch.tensor(GREYS)[:, None, None, None].expand(3, 3, SIDE, SIDE).to(torch.uint8)


def run(samples: Any, classifier: Classifier | None = None, **settings: Any) -> Run:
    stated = {"methods": "gradient,random", "metrics": "deletion(steps=2, fill=black)", "observer": Silent()}
    return evaluate(classifier or model(), samples, **stated | settings)


def write_pictures(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for place, grey in enumerate(GREYS):
        Image.new("RGB", (SIDE, SIDE), (grey,) * 3).save(folder / f"p{place}.png")
    return folder


# The error, by hand ------------------------------------------------------------------------------------------------------


def test_the_error_is_that_of_a_hand_worked_example() -> None:
    error = number_error([21.0, 38.0, 64.0, None], [20.0, 40.0, 60.0, 7.0], "years")
    # Errors 1, 2, 4: mean 7/3, deviation √(7/3), t(0.975, 2) = 4.3027. Squares 1 + 4 + 16 = 21; around the mean 41 the
    # numbers have 400 + 9 + 529 = 938.
    half = 4.30265 * (7 / 3) ** 0.5 / 3**0.5
    assert error is not None
    assert error.mean == pytest.approx(7 / 3)
    assert (error.low, error.high) == (0.0, pytest.approx(7 / 3 + half, abs=1e-4))
    assert error.r2 == pytest.approx(1 - 21 / 938)
    assert error.words == "2.33 years [0, 6.13], 3 labelled images; R² 0.98"
    assert error.remark == "Too few labelled images to compare it with always saying the same number."
    assert error.sentence == "The model's number is off by 2.33 years on 3 labelled images, on average."


def test_one_image_has_no_interval_and_no_share_of_variance() -> None:
    error = number_error([3.0], [5.0])
    assert error is not None
    assert (error.low, error.high, error.r2, error.words) == (None, None, None, "2, 1 labelled image")
    assert number_error([None], [5.0]) is None


@pytest.mark.parametrize(
    ("numbers", "estimates", "remark"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 6.0], ""),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0], "No closer than always saying 3 (1.2). The usual reasons: "),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [3.0] * 5, "Every image gets the number 3. The usual reasons: "),
        ([3.0] * 5, [3.0, 3.0, 3.0, 3.0, 4.0], ""),
    ],
)
def test_a_model_that_is_no_better_than_a_constant_gets_a_remark(numbers: Any, estimates: Any, remark: str) -> None:
    error = number_error(numbers, estimates, condition="rotation(degrees=45)")
    assert error is not None
    assert error.remark.startswith(remark) if remark else error.remark == ""
    assert error.doubtful == bool(remark)
    assert ("or the condition rotation(degrees=45)." in error.remark) == bool(remark)


# Where numbers come from --------------------------------------------------------------------------------------------------


def sources(folder: Path) -> dict[str, Any]:
    """The same three images with their numbers, from everything that holds images."""
    images, numbers = pixels(), torch.tensor(AGES)
    pictures = [Image.new("RGB", (SIDE, SIDE), (grey,) * 3) for grey in GREYS]
    table = datasets.Dataset.from_dict(
        {"image": pictures, "label": AGES},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.Value("float32")}),
    )
    table.save_to_disk(str(folder / "data_set"))
    with tarfile.open(folder / "shards.tar", "w") as archive:
        for place, picture in enumerate(pictures):
            png = io.BytesIO()
            picture.save(png, "PNG")
            members = {"png": png.getvalue(), **({"cls": b"21"} if place == 0 else {"json": b'{"label": %g}' % AGES[place]})}
            for ending, content in members.items():
                info = tarfile.TarInfo(f"p{place}.{ending}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    data = TensorDataset(images / 255, numbers)
    return {
        "list": (images, list(AGES)),
        "array": (images.numpy(), np.array(AGES)),
        "column": (images, numbers[:, None]),
        "samples": [Sample(id=str(place), image=images[place] / 255, number=AGES[place]) for place in range(3)],
        "labels of samples": [
            Sample(id=str(place), image=images[place] / 255, label=int(AGES[place])) for place in range(3)
        ],
        "dataset": data,
        "loader": DataLoader(data, batch_size=2),
        "hugging face": table,
        "hugging face folder": folder / "data_set",
        "shards": folder / "shards.tar",
        "arrays": from_arrays(images, AGES, numbers=True),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "list",
        "array",
        "column",
        "samples",
        "labels of samples",
        "dataset",
        "loader",
        "hugging face",
        "hugging face folder",
        "shards",
        "arrays",
    ],
)
def test_numbers_come_from_every_source(kind: str, tmp_path: Path) -> None:
    result = run(sources(tmp_path)[kind], metrics=None, methods="random")
    error = result.number_error()
    assert error is not None
    assert error.words == "2.33 years [0, 6.13], 3 labelled images; R² 0.98"


@pytest.mark.parametrize("heading", ["label", "number", "age", "years"])
def test_numbers_come_from_a_table(heading: str, tmp_path: Path) -> None:
    from snellen.images.folder import from_folder

    folder, classifier = write_pictures(tmp_path / "pictures"), model(classes=["Age"])
    table = tmp_path / "ages.csv"
    extra = ("", "") if heading == "years" else (",sex", ",f")  # an only column may have any name
    table.write_text(f"file,{heading}{extra[0]}\np0.png,21{extra[1]}\np1.png,{extra[1]}\np2.png,6.4e1{extra[1]}\n")
    images = from_folder(folder, geometry=classifier.geometry, labels=table, classes=classifier.classes, numbers=True)
    assert [sample.number for sample in images] == [21.0, None, 64.0]
    assert [sample.label for sample in images] == [None] * 3
    error = run(images, classifier).number_error()
    assert error is not None
    assert (error.n, error.mean) == (2, pytest.approx(2.5, abs=1e-4))


def test_a_number_may_be_negative_and_is_not_unknown(tmp_path: Path) -> None:
    table = datasets.Dataset.from_dict(
        {"image": [Image.new("RGB", (SIDE, SIDE))], "label": [-1]},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")}),
    )
    assert run(table, model("number"), metrics=None, methods="random").record.samples.rows[0].number == -1


# What is shown ----------------------------------------------------------------------------------------------------


def test_the_error_is_shown_where_accuracy_is(tmp_path: Path) -> None:
    notes: list[str] = []

    class Noting(Silent):
        def note(self, sentence: str) -> None:
            notes.append(sentence)

    result = run((pixels(), AGES), out=tmp_path / "run", observer=Noting())
    words = "2.33 years [0, 6.13], 3 labelled images; R² 0.98"
    assert any(note.startswith(f"mean absolute error {words}. Too few") for note in notes)
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["samples"]
    assert stored["error"]["mean"] == pytest.approx(7 / 3, abs=1e-4)
    assert stored["accuracy"] is None
    rows = result.record.samples.rows
    assert [(row.number, round(row.estimate or 0, 3)) for row in rows] == [(21, 20), (38, 40), (64, 60)]
    assert result.accuracy() is None
    assert result.samples()["number"].tolist() == list(AGES)
    assert run_summary(result)["numbers"]["mean absolute error"] == pytest.approx(7 / 3, abs=1e-4)
    console = Console(file=io.StringIO(), width=120)
    console.print(summary_table(result))
    assert f"Mean absolute error {words}" in console.file.getvalue()  # type: ignore[attr-defined]
    html = page(result)
    assert f"<b>Mean absolute error</b> {words}" in html
    assert "<b>Model</b> a number in years" in html
    assert "Each map explains the number in years." in html
    assert "<h3>20.0 years</h3>" in html
    assert "<dt>label</dt><dd>21.0 years</dd>" in html
    for word in ("Accuracy", "p = ", "most likely", " classes"):
        assert word not in html.partition('<h2 id="tests"')[0], word


def test_runs_of_classes_store_no_numbers(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            bright = inputs.mean((1, 2, 3))
            return torch.stack([bright, 3 - bright], dim=1)

    result = run((pixels(), [0, 1, 0]), Classifier(Two()), out=tmp_path / "run", methods="random")
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["samples"]
    assert "error" not in stored
    assert result.record.samples.rows.values("estimate") == [None] * 3
    assert not {"number", "estimate"} & set(result.samples().columns)


def test_captions_show_the_number_with_its_unit() -> None:
    for target, name in (("up", "number in years"), ("down", "number in years going down")):
        maps = explain(model(), pixels()[:1], methods=["gradient"], targets=target)
        assert f"0: {name}, value = 20.0 years" in maps._repr_html_()


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([1.0, 2.0], "there are 3 images, but 2 labels"),
        (["old", 1, 2], "the label of image 0 is 'old'; the model estimates a number, so a label is a number or empty"),
        ([1, True, 2], "the label of image 1 is True; the model estimates a number"),
        ([1, [2, 3], 2], r"the label of image 1 is \[2, 3\]; the model estimates a number"),
        (np.zeros((3, 2)), r"the label of image 0 is \[0.0, 0.0\]; the model estimates a number"),
        ([1, float("inf"), 2], "the label of image 1 is inf; the model estimates a number"),
        (
            [1, 120.5, 2],
            "the label of '1' is 120.5, but the number was stated to lie between 0 and 100; correct the label, or state",
        ),
    ],
)
def test_labels_that_are_no_numbers_or_beyond_the_range_are_refused(labels: Any, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence):
        run((pixels(), labels))


def test_unknown_numbers_are_no_error() -> None:
    assert run((pixels(), [None, float("nan"), None])).number_error() is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,label\np0.png,old\n", "line 2 is 'old'; the model estimates a number, so a label is a number or empty"),
        ("file,label\np0.png,1\n", "has no row for 'p1.png' and 1 more; add it"),
        ("file,label\np0.png,1\np0.png,2\np1.png,1\np2.png,1\n", "line 3: 'p0.png' has a second, different row; keep one"),
        (
            "file,height,age\np0.png,1,2\n",
            "the columns height, age, but the model estimates one number; call its column label",
        ),
        ("file\np0.png\n", "needs the columns file, label in its first line, but 'label' is missing"),
    ],
)
def test_tables_without_one_number_per_image_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    from snellen.images.folder import from_folder

    folder = write_pictures(tmp_path / "pictures")
    (tmp_path / "ages.csv").write_text(text)
    with pytest.raises(SnellenError, match=sentence):
        from_folder(folder, geometry=model().geometry, labels=tmp_path / "ages.csv", numbers=True)


def test_classes_for_a_number_and_numbers_for_classes_are_refused() -> None:
    with pytest.raises(
        SnellenError, match=r"'0' has a class as its label, but 'age' gives a number; say Sample\(number=1\)"
    ):
        run(from_arrays(pixels(), [1, 2, 3]))
    classes = datasets.Dataset.from_dict(
        {"image": [Image.new("RGB", (SIDE, SIDE))], "label": [0]},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}),
    )
    with pytest.raises(
        SnellenError, match="the column label of the dataset holds classes, but the model estimates a number"
    ):
        run(classes)
    yes_or_no = model("single-logit")
    with pytest.raises(
        SnellenError, match="'0' has the number 21, but 'age' has a single yes-or-no output; say heads='number'"
    ):
        run(from_arrays(pixels(), AGES, numbers=True), yes_or_no)


@pytest.mark.parametrize("target", ["label", "every-label", "least-likely"])
def test_targets_of_classes_are_refused(target: str) -> None:
    sentence = f"the target '{target}' is for classes, but 'age' gives a number; say up or down"
    with pytest.raises(SnellenError, match=sentence):
        run((pixels(), AGES), target=target)
    with pytest.raises(SnellenError, match=sentence):
        score("deletion", model(), pixels(), method="gradient", targets=target)


@pytest.mark.parametrize("target", ["7", "contrast(0, 1)"])
def test_columns_that_a_number_does_not_have_are_refused(target: str) -> None:
    with pytest.raises(SnellenError, match="'age' gives a number, so say up or down"):
        run((pixels(), AGES), target=target)


@pytest.mark.parametrize("metric", ["average-drop", "average-increase", "average-gain", "adcc", "sufficiency", "stability"])
def test_metrics_without_meaning_are_refused_by_name(metric: str) -> None:
    with pytest.raises(SnellenError, match=f"{metric} needs .*, but 'age' gives a number"):
        run((pixels(), AGES), metrics=metric)


def test_up_and_down_are_the_number_and_its_complement() -> None:
    up, down = (run((pixels(), AGES), target=target, methods="constant").scores()["value"] for target in ("up", "down"))
    # Removed by halves, the place in the range falls from v to v/2 to 0, with the area v/2; that of down is 1 - v/2.
    assert up.tolist() == pytest.approx([0.1, 0.2, 0.3], abs=1e-5)
    assert down.tolist() == pytest.approx([0.9, 0.8, 0.7], abs=1e-5)
