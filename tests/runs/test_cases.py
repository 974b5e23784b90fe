"""Runs on models of every kind of head: one case per picture and target, and metrics that refuse what has no meaning."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.runs import Options, Run, evaluate
from snellen.runs.progress import Silent
from snellen.types import Findings, Sample

SIDE = 16
CORNERS = ((0, 0), (0, SIDE // 2), (SIDE // 2, 0))
NAMES = ("north-west", "north-east", "south-west")


class Corners(nn.Module):
    """Independent heads: head k says whether corner k is bright, and looks nowhere else."""

    def __init__(self, heads: int = 3) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 1, 1, bias=False)
        self.pool = nn.AvgPool2d(SIDE // 2)
        self.heads = heads
        with torch.no_grad():
            self.convolution.weight.fill_(1 / 3)

    def forward(self, inputs: Tensor) -> Tensor:
        quarters = self.pool(self.convolution(inputs)).flatten(1)[:, : self.heads]
        return 16 * (quarters - 0.5)


def picture(*bright: int) -> Tensor:
    image = torch.full((3, SIDE, SIDE), 0.1)
    for corner in bright:
        top, left = CORNERS[corner]
        image[:, top : top + SIDE // 2, left : left + SIDE // 2] = 0.9
    return image


def region(corner: int) -> Tensor:
    mask = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    top, left = CORNERS[corner]
    mask[top : top + SIDE // 2, left : left + SIDE // 2] = True
    return mask


def samples() -> list[Sample]:
    shown = {"both": (0, 2), "one": (1,), "none": ()}
    return [
        Sample(
            id=name,
            image=picture(*bright),
            label=Findings(bright, tuple(sorted({0, 1, 2} - set(bright)))),
            truths={corner: region(corner) for corner in bright},
        )
        for name, bright in shown.items()
    ]


def corners(**settings) -> Classifier:
    return Classifier(Corners(), classes=NAMES, name="corners", **{"heads": "independent-labels"} | settings)


def run(classifier: Classifier, images: object, metrics: object = None, **settings: object) -> Run:
    settings = {"methods": ["input-x-gradient", "random"], "options": Options(threads=1)} | settings
    return evaluate(classifier, images, metrics=metrics, observer=Silent(), **settings)


def rows(result: Run) -> list[tuple[str, int | None, int, str | None]]:
    return [(row.sample, row.label, row.target, row.group) for row in result.record.samples.rows]


def maps(result: Run) -> np.ndarray:
    return result.maps("input-x-gradient", [row.sample for row in result.record.samples.rows])


def test_every_label_is_a_case_with_its_own_truth() -> None:
    result = run(corners(), samples(), "energy-pointing-game", target="every-label")
    assert rows(result) == [
        ("both [north-west]", 0, 0, "both"),
        ("both [south-west]", 2, 2, "both"),
        ("one [north-east]", 1, 1, "one"),
    ]
    table = result.scores().set_index(["method", "sample"])["value"]
    assert table["input-x-gradient"].tolist() == pytest.approx([1.0, 1.0, 1.0])  # all of the map in the label's own corner
    assert any("1 of 3 images have no target by 'every-label', first 'none'" in note for note in result.record.notes)
    assert any(
        "predicts 3 of 3 labels that are present (1.00) and 0 of 6 that are absent" in note for note in result.record.notes
    )


def test_the_page_says_what_was_explained_and_claims_no_accuracy() -> None:
    result = run(corners(), samples(), "sparseness", target="every-label")
    page = result.report().read_text()
    assert "3 independent labels" in page
    assert result.record.samples.source == "3 cases of 2 pictures from a list"
    assert "Each map explains a label that is right." in page
    assert result.record.accuracy() is None
    assert "<b>Accuracy</b>" not in page
    assert [round(row.probability, 3) for row in result.record.samples.rows] == [0.998] * 3
    contrast = run(corners(heads="exclusive-classes"), torch.stack([picture(0)]), "sparseness", target="contrast(0, 1)")
    assert "Each map explains north-west, not north-east." in contrast.report().read_text()


def test_predicted_are_all_labels_above_their_thresholds() -> None:
    assert [row[0] for row in rows(run(corners(), samples()))] == [
        "both [north-west]",
        "both [south-west]",
        "one [north-east]",
    ]
    # sigmoid(16 (0.9 - 0.5)) = 0.9983 is below a threshold of 0.999
    strict = run(corners(heads="independent-labels(thresholds=[0.5, 0.5, 0.999])"), samples())
    assert [row[0] for row in rows(strict)] == ["both", "one"]


def test_a_named_label_is_one_case_per_picture() -> None:
    assert rows(run(corners(), samples(), target="south-west")) == [
        ("both", 2, 2, None),
        ("one", None, 2, None),
        ("none", None, 2, None),
    ]


def test_deletion_reads_the_sigmoid_of_its_own_label() -> None:
    """A map that knows where its label is deletes it at once; with a softmax over heads the others would share in it."""
    result = run(corners(), samples(), "deletion(steps=4, fill=black)", target="every-label", methods=["input-x-gradient"])
    curve = result.curves("deletion(steps=4, fill=black)")["input-x-gradient"][0]
    # All 64 pixels of a corner are removed in the first of four steps: from sigmoid(16 · 0.4) to sigmoid(-16 · 0.5).
    assert curve.tolist() == pytest.approx([0.998341, 0.000335, 0.000335, 0.000335, 0.000335], abs=1e-5)


def test_fourteen_heads_are_told_apart() -> None:
    """With a softmax over sigmoid heads, deletion once came out the same for every method."""

    class Fourteen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.corners = Corners()

        def forward(self, inputs: Tensor) -> Tensor:
            corner = self.corners(inputs)
            return torch.cat([corner, corner.new_full((len(inputs), 11), -3.0)], dim=1)

    table = run(
        Classifier(Fourteen(), heads="independent-labels"), samples(), "deletion(steps=8, fill=black)", target="every-label"
    ).table()
    own, random = (float(table.loc[method].iloc[0]) for method in ("input-x-gradient", "random"))
    assert own < 0.15
    assert random > 0.4


def test_a_run_of_cases_continues(tmp_path) -> None:
    first = run(corners(), samples(), "deletion(steps=2)", target="every-label", out=tmp_path / "run")
    again = run(corners(), samples(), "deletion(steps=2)", target="every-label", out=tmp_path / "run")
    assert first.scores().equals(again.scores())
    with pytest.raises(SnellenError, match="was made with another target"):
        run(corners(), samples(), "deletion(steps=2)", target="predicted", out=tmp_path / "run", methods=["random"])


@pytest.mark.slow
def test_workers_compute_the_same_cases() -> None:
    alone, spread = (
        run(
            corners(),
            samples(),
            "deletion(steps=2)",
            target="every-label",
            options=Options(threads=1, shard=1, workers=count),
        )
        for count in (0, 2)
    )
    assert alone.scores().equals(spread.scores())


def test_a_contrast_explains_the_difference() -> None:
    result = run(corners(heads="exclusive-classes"), torch.stack([picture(0)]), target="contrast(north-west, south-west)")
    (row,) = result.record.samples.rows
    assert result.record.classifier.class_names is not None
    assert result.record.classifier.class_names[row.target] == "north-west, not south-west"
    values = maps(result)[0]
    assert values[: SIDE // 2, : SIDE // 2].sum() > 0 > values[SIDE // 2 :, : SIDE // 2].sum()
    assert values[: SIDE // 2, SIDE // 2 :].sum() == pytest.approx(0)


def test_a_function_of_the_outputs_is_a_target() -> None:
    def total(logits: Tensor) -> Tensor:
        return logits.sum(dim=1)

    result = run(corners(heads="exclusive-classes"), torch.stack([picture(0, 1)]), target=total)
    assert maps(result)[0][: SIDE // 2].sum() > 0
    with pytest.raises(
        SnellenError, match=r"deletion reads a probability, but 'corners' gives total; say deletion\(of=logit\)"
    ):
        run(corners(heads="exclusive-classes"), torch.stack([picture(0, 1)]), "deletion", target=total)


def number(**settings) -> Classifier:
    return Classifier(Corners(heads=1), name="age", **{"heads": "number(unit=years, low=-8, high=8)"} | settings)


def test_a_number_goes_up_or_down() -> None:
    up, down = (
        run(
            number(), torch.stack([picture(0)]), "deletion(steps=4, fill=black)", target=target, methods=["input-x-gradient"]
        )
        for target in ("predicted", "down")
    )
    assert torch.allclose(torch.as_tensor(maps(up)), -torch.as_tensor(maps(down)))
    # 16 (0.9 - 0.5) = 6.4 is at (6.4 + 8) / 16 = 0.9 of the range; black is at 0, at once.
    assert up.scores()["value"].tolist() == pytest.approx([0.9 / 8])


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("average-increase", "average-increase needs the probability of a class, but 'age' gives a number"),
        ("stability", "stability needs a decision that can change, but 'age' gives a number"),
        ("random-logit", "random-logit compares a class with others, but 'age' gives a number"),
    ],
)
def test_what_has_no_meaning_for_a_number_refuses_by_name(metric: str, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence):
        run(number(), torch.stack([picture(0)]), metric)


def test_a_number_without_a_range_has_no_curve_of_probabilities() -> None:
    with pytest.raises(SnellenError, match=r"deletion reads a probability.* or state its range: heads='number\(low=0"):
        run(number(heads="number"), torch.stack([picture(0)]), "deletion")
    with pytest.raises(SnellenError, match="rise reads a probability"):
        run(number(heads="number"), torch.stack([picture(0)]), "sparseness", methods=["rise"])
    assert (
        run(number(heads="number"), torch.stack([picture(0)]), "deletion(of=logit, steps=2)").scores()["value"].notna().all()
    )


def test_a_single_logit_is_a_yes_or_no() -> None:
    binary = Classifier(Corners(heads=1), name="binary", heads="single-logit", classes=["bright"])
    result = run(binary, (torch.stack([picture(0), picture(1)]), [1, 0]), "average-drop", target="label")
    assert [(row.prediction, row.target) for row in result.record.samples.rows] == [(1, 1), (0, 0)]
    assert result.record.classifier.class_names == ("not bright", "bright")
    assert result.record.samples.accuracy is not None
    assert result.record.samples.accuracy.correct == 2


@pytest.mark.parametrize(
    ("settings", "target", "sentence"),
    [
        (
            {"heads": "exclusive-classes"},
            "predicted",
            "'both' has several labels, but 'corners' has exclusive classes; say heads=",
        ),
        ({}, "label", "'both' has 2 labels, so target 'label' is not one; say 'every-label'"),
        ({}, "contrast(north-west, north-west)", "a contrast needs two different classes"),
        ({}, "contrast(north-west)", "is not a contrast of two classes"),
        ({}, "up", "the target 'up' is for a number, but 'corners' has independent labels"),
        ({}, "north", "target 'north' is not known"),
        ({"heads": "exclusive-classes"}, "every-label", "is for independent labels"),
    ],
)
def test_targets_and_labels_that_do_not_fit_are_one_sentence(settings: dict[str, str], target: str, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence.replace("(", r"\(")):
        run(corners(**settings), samples(), target=target)


def test_a_target_that_names_two_classes_is_refused() -> None:
    classifier = Classifier(Corners(), classes=["crane", "b", "crane"], name="corners")
    with pytest.raises(
        SnellenError, match="target 'crane' is the name of the classes 0 and 2 of 'corners'; state the number"
    ):
        run(classifier, torch.stack([picture(0)]), target="crane")


def test_a_recipe_of_exclusive_classes_does_not_fit_independent_labels() -> None:
    with pytest.raises(SnellenError, match="trains models of exclusive classes, but 'corners' has independent labels"):
        run(corners(), samples(), "roar", target="every-label")
