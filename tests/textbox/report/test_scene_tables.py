"""`snellen textbox show`: the tables say what the rules say, and frames stand around the right things and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor
from rich.console import Console
from typer.testing import CliRunner

from snellen.cli.textbox import app
from snellen.errors import SnellenError
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.networks.trained_network import TrainedNetwork, write_network
from snellen.textbox.networks.training import TrainingPlan, TrainingResult, to_inputs
from snellen.textbox.report.contact_sheets import AVOID, FOCUS, setting_sheet, settings_sheet, write_sheet
from snellen.textbox.report.scene_tables import (
    bucket_table,
    draw_all_settings,
    draw_rule_scenes,
    find_spec_and_network,
    number_ranges,
    settings_table,
)
from snellen.textbox.scenes.rules import Truth
from snellen.textbox.scenes.settings import RULES, find_setting


def printed(what: object, width: int = 160) -> list[str]:
    console = Console(width=width, record=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(what)
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def coloured(sheet: Image.Image, colour: str) -> np.ndarray:
    return (np.asarray(sheet) == np.array(ImageColor.getrgb(colour))).all(axis=2)


def saved_network(folder: Path, rule: str = "box1", **circumstances: str) -> TrainedNetwork:
    """A folder as training writes it, of a network that has learnt nothing."""
    spec = NetworkSpec.of(rule, name="mine", architecture="small-cnn", **circumstances)
    return write_network(
        folder,
        spec,
        TrainingResult(module=build_network("small-cnn", classes=2, side=64, seed=0), seed=0, accuracy={1: 0.5}),
        TrainingPlan(),
    )


def test_the_table_of_a_setting() -> None:
    lines = printed(bucket_table(draw_rule_scenes(NetworkSpec.of_setting("complex-cr2"), images=1)))
    assert lines[0] == "bucket shows label focus avoid"
    assert lines[1] == "1 nothing undefined"
    assert lines[6] == "6 text B, box2 1 text box2"
    assert lines[12] == "12 text B, box2, box1 1 box1, box2 text"


def test_the_table_of_all_settings_is_the_published_one() -> None:
    text = "\n".join(printed(settings_table({name: find_setting(name) for name in RULES}), width=220))
    assert 'complex-cr1 if box2: box1 else: text == "B" 2, 4–6, 8 3, 9–12 1, 7 2, 3, 8, 9: text 2–4, 10: nothing' in text
    assert "simple-fr box1 1–6 7–12 none 1–6: nothing 1, 7: nothing" in text
    assert all(name in text for name in RULES)


def test_runs_of_numbers() -> None:
    assert number_ranges([9, 1, 2, 3, 5, 7, 8]) == "1–3, 5, 7–9"
    assert number_ranges([1, 2]) == "1, 2"
    assert number_ranges([]) == ""


def test_every_bucket_shows_the_same_scenes() -> None:
    showing = draw_rule_scenes(NetworkSpec.of_setting("simple-fr", background="noise"), images=3)
    nothing, everything = showing.buckets[0].scenes, showing.buckets[11].scenes
    differs = (nothing.pixels != everything.pixels).any(dim=1)
    assert torch.equal(differs | everything.ink.any(dim=1), everything.ink.any(dim=1))
    assert not torch.equal(everything.pixels[0], everything.pixels[1])


@pytest.mark.parametrize("name", ["simple-nr", "complex-fr", "complex-cr3"])
def test_frames_stand_around_what_is_to_be_focused_on_and_avoided(name: str) -> None:
    showing = draw_rule_scenes(NetworkSpec.of_setting(name), images=1)
    first = replace(showing.buckets[0], truth=Truth(0))
    legend = {
        colour: int(coloured(setting_sheet(replace(showing, buckets=(first,))), colour).sum()) for colour in (FOCUS, AVOID)
    }
    for bucket in showing.buckets:
        sheet = setting_sheet(replace(showing, buckets=(bucket,)))
        for colour, names in ((FOCUS, bucket.truth.focus), (AVOID, bucket.truth.avoid)):
            pixels = int(coloured(sheet, colour).sum()) - legend[colour]
            objects = zip(showing.spec.rule.objects, bucket.scenes.boxes[0].tolist(), strict=True)
            around = sum(
                4 * sum(3 * (box[place + 2] - box[place]) + 8 for place in (0, 1)) - 16
                for item, box in objects
                if item.name in names
            )
            if colour == FOCUS:
                assert pixels == around, bucket.number
            else:  # five in nine pixels of a dashed frame, and what its corners add
                assert 0.5 * around <= pixels <= 0.72 * around, bucket.number


def test_undefined_buckets_are_faded() -> None:
    showing = draw_rule_scenes(NetworkSpec.of_setting("simple-nr"), images=1)
    sheet = np.asarray(setting_sheet(showing))
    black, grey = ((sheet == value).all(axis=2).sum() for value in (0, 181))
    assert black > 6 * 192 * 192
    assert 3 * 192 * 192 < (np.abs(sheet.astype(int) - 181).max(axis=2) < 6).sum() < 4 * 192 * 192 + 4000
    assert grey <= 4 * 192 * 192


def test_a_model_is_told_right_or_wrong(tmp_path: Path) -> None:
    model = saved_network(tmp_path)  # says the same of nearly everything
    showing = draw_rule_scenes(*find_spec_and_network(model=str(tmp_path)), images=2)
    right, total = showing.accuracy or (0, 0)
    assert total == 24
    assert 0 < right < 24
    for bucket in showing.buckets:
        assert bucket.correct is not None
        assert torch.equal(bucket.correct, model.predictions(to_inputs(bucket.scenes)) == bucket.truth.label)
    lines = printed(bucket_table(showing))
    assert lines[0].endswith("model")
    assert lines[1].endswith("of 2 right")
    sheet = setting_sheet(showing)
    for colour in ("#1d7a3a", "#b3261e"):
        assert int(coloured(sheet, colour).sum()) > 100


def test_what_to_show(tmp_path: Path) -> None:
    saved_network(tmp_path, background="noise")
    spec, model = find_spec_and_network(model=str(tmp_path))
    assert (spec.background, spec.name) == ("noise", "mine")
    assert model is not None
    assert find_spec_and_network(model=str(tmp_path), background="texture")[0].background == "texture"
    assert find_spec_and_network("simple-fr", model=str(tmp_path))[0].name == "mine"
    assert find_spec_and_network("simple-fr", background="noise")[1] is None  # no model that comes along has seen noise
    assert find_spec_and_network(rule='text == "A"')[0].rule.labels[1] == 1
    for arguments, sentence in (
        ({"setting": "simple-fr", "rule": "box1"}, "give --setting or --rule, not both"),
        ({}, "there is nothing to show"),
        ({"setting": "simple-ff"}, "there is no setting 'simple-ff'; did you mean 'simple-fr'"),
        ({"rule": "box3"}, "names 'box3'"),
        ({"model": "nowhere"}, "there is no setting 'nowhere', nor a folder of that name"),
        (
            {"setting": "simple-nr", "model": str(tmp_path)},
            "was trained on 'box1', not 'text == \"B\"'; leave one of them out",
        ),
        ({"setting": "simple-fr", "background": "snow"}, "there is no background 'snow'"),
    ):
        with pytest.raises(SnellenError, match=sentence):
            find_spec_and_network(**arguments)
    with pytest.raises(SnellenError, match="from 1 to 12, not 0"):
        draw_rule_scenes(NetworkSpec.of_setting("simple-fr"), images=0)


def test_all_settings_share_their_pictures() -> None:
    every = draw_all_settings(background="photos")
    assert [shown.spec.rule.text for shown in every] == list(RULES.values())
    for shown in every[1:]:
        for bucket, same in zip(shown.buckets, every[0].buckets, strict=True):
            assert torch.equal(bucket.scenes.pixels, same.scenes.pixels)
    assert settings_sheet(every).width > 1500


def test_where_a_picture_cannot_go(tmp_path: Path) -> None:
    sheet = Image.new("RGB", (4, 4))
    with pytest.raises(SnellenError, match=r"no picture can be written as 'a.txt'; let --out end in .png"):
        write_sheet(sheet, tmp_path / "a.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(SnellenError, match="choose another --out"):
        write_sheet(sheet, tmp_path / "file" / "a.png")


def test_the_command(tmp_path: Path) -> None:
    scenes = tmp_path / "mine.yaml"
    scenes.write_text("rule: if dot: 2 elif bar: 1 else: 0\nside: 40\nthings: {dot: 2, bar: {height: 3, width: 11}}\n")
    done = CliRunner().invoke(app, ["show", "--rule", str(scenes), "--images", "2", "--out", str(tmp_path / "mine.png")])
    assert done.exit_code == 0, done.output
    assert "mine.png" in done.output
    assert [line.split() for line in done.output.splitlines()[1:5]] == [
        ["1", "nothing", "0", "nothing", "nothing"],
        ["2", "dot", "2", "dot", "nothing"],
        ["3", "bar", "1", "bar", "nothing"],
        ["4", "dot,", "bar", "2", "dot", "bar"],
    ]
    with Image.open(tmp_path / "mine.png") as picture:
        assert picture.height > 400
