"""Scene files: what they say is what the scenes hold; every mistake is a sentence with its file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from snellen.errors import SnellenError
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.scenes.objects import OBJECTS
from snellen.textbox.scenes.scene_files import is_scene_file, read_scenes
from snellen.textbox.scenes.settings import RULES

WHOLE = """
rule: if star: box else: text == "B"   # quotes and colons as they stand
side: 96
colour: [255, 140, 0]
background: noise
things:
  text:
    A: |
      .#.
      #.#
    B: ["##.", "#.#"]
  star: |
    ..#..
    #####
    .#.#.
  box: {height: 8, width: 12}
"""


def written(folder: Path, text: str, name: str = "harder.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_whole_file(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    scene_file = read_scenes(path)
    assert (scene_file.name, scene_file.side, scene_file.colour, scene_file.background) == (
        "harder",
        96,
        (255, 140, 0),
        "noise",
    )
    assert [(item.name, item.kinds, item.size) for item in scene_file.objects] == [
        ("text", ("A", "B"), (2, 3)),
        ("star", ("star",), (3, 5)),
        ("box", ("box",), (8, 12)),
    ]
    assert scene_file.objects[1].masks[0].astype(int).tolist() == [[0, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0]]
    spec = NetworkSpec.of_rule(str(path))
    assert spec.rule.text == 'if star: box else: text == "B"'
    made = spec.layout.scenes([12], [0], seed=0)
    assert made.pixels.shape == (1, 3, 96, 96)
    assert made.ink.sum(dim=(2, 3)).tolist() == [[4, 8, 96]]
    again = NetworkSpec.from_record(spec.record())  # what training writes is read back the same
    assert again == spec
    assert again.layout.scenes([12], [0], seed=0).pixels.equal(made.pixels)


def test_what_is_left_out_is_as_published(tmp_path: Path) -> None:
    for quoted in (RULES["complex-cr2"], f"'{RULES['complex-cr2']}'", f">\n  {RULES['complex-cr2']}"):
        path = written(tmp_path, f"rule: {quoted}\n")
        scene_file = read_scenes(path)
        assert scene_file.objects == OBJECTS
        assert NetworkSpec.of_rule(str(path)).rule == NetworkSpec.of_rule(RULES["complex-cr2"]).rule
    scene_file = read_scenes(
        written(tmp_path, 'rule: dot\nthings: {text: published, dot: 3, bar: {tall: ["#", "#"], wide: 2}}\n')
    )
    assert scene_file.objects[0] == OBJECTS[0]
    assert [item.size for item in scene_file.objects[1:]] == [(3, 3), (2, 2)]
    assert scene_file.objects[2].kinds == ("tall", "wide")


def test_options_win_over_the_file(tmp_path: Path) -> None:
    path = str(written(tmp_path, WHOLE))
    made = NetworkSpec.of_rule(path, architecture="vit-tiny", background="photos", name="mine")
    assert (made.architecture, made.background, made.name, made.side) == ("vit-tiny", "photos", "mine", 96)
    assert NetworkSpec.of_rule(path).background == "noise"
    assert NetworkSpec.of_rule("box1").name == "own"


def test_a_file_is_told_from_a_rule(tmp_path: Path) -> None:
    assert is_scene_file("missing.yaml")
    assert is_scene_file(str(written(tmp_path, WHOLE, "plain")))
    assert not any(is_scene_file(rule) for rule in RULES.values())


def test_a_folder_of_photographs_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    written(tmp_path, "rule: box1\nbackground: mine\n")
    monkeypatch.chdir(tmp_path.parent)
    assert read_scenes(Path(tmp_path.name) / "harder.yaml").background == str(tmp_path.resolve() / "mine")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must hold a rule, such as"),
        ("side: [", "is not valid YAML"),
        ("side: 96", "'rule' must be one line of text, such as `rule: box1`, not nothing"),
        ("rule: 3.5", "the rule .3.5. cannot be read at"),
        ("rule: box1\nsides: 3", "there is no key 'sides'; did you mean 'side'"),
        ("rule: box3", "the rule 'box3' names 'box3', but the scenes hold text, box2 and box1"),
        ("rule: box1\nside: big", "'side' must be a whole number of pixels up to 512, not 'big'"),
        ("rule: box1\nside: 0", "not 0"),
        ("rule: box1\nside: 12", "'text' is larger than a scene of 12×12"),
        ("rule: box1\nside: 16", "text, box2, box1 do not fit into 16×16 without overlap; make the scenes larger"),
        ("rule: box1\ncolour: [1, 2]", r"'colour' must be three whole numbers .* not \[1, 2\]"),
        ("rule: box1\ncolour: [1, 2, 256]", "from 0 to 255"),
        ("rule: box1\ncolour: oragne", "'colour' must be a name, such as orange"),
        ("rule: box1\nbackground: nois", "there is no background 'nois', nor a folder of that name; did you mean 'noise'"),
        ("rule: box1\nbackground: 3", "'background' must be one of black, .* not 3"),
        ("rule: box1\nthings: [box1]", "'things' must be objects by their names"),
        ("rule: box1\nthings: {if: 3}", "an object cannot be called 'if'"),
        ("rule: a\nthings: {a b: 3}", "an object cannot be called 'a b'"),
        ("rule: a\nthings: {a: published}", "no published object is called 'a'; there are text, box2, box1"),
        ("rule: a\nthings: {a: {}}", "'things: a' holds no kind"),
        ("rule: a\nthings: {a: {yes: 3}}", "a kind of 'a' cannot be True; put its name in quotes"),
        ("rule: a\nthings: {a: {height: 3}}", "'width' of 'things: a' must be a whole number of pixels, not nothing"),
        ("rule: a\nthings: {a: {height: 3, wide: 3}}", "has no 'wide'"),
        ("rule: a\nthings: {a: 2.5}", "'things: a' must be rows of # and ., .* not 2.5"),
        ("rule: a\nthings:\n  a:\n  - ###\n  - '###'", "row 1 of 'things: a' is empty, for YAML takes # as a comment"),
        ("rule: a\nthings: {a: ['#x']}", "row 1 of 'things: a' must be # and . alone, not '#x'"),
        ("rule: a\nthings: {a: ['##', '#']}", "row 2 of 'things: a' has 1 marks where the first has 2"),
        ("rule: a\nthings: {a: {p: ['#.', '#.']}}", "the picture of 'a' as p has an empty margin; trim it"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_file(text: str, sentence: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SnellenError, match=sentence) as caught:
        read_scenes(path)
    assert f"'{path}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match=r"cannot read the scene file 'missing.yaml' \(No such file or directory\)"):
        NetworkSpec.of_rule("missing.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SnellenError, match=r"cannot read the scene file '.*bytes.yaml'"):
        read_scenes(tmp_path / "bytes.yaml")
