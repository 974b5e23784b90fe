"""`snellen card`: what it writes, what it shows at every width, and what it says of wrong names."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.cards.planted_card_set import planted_deck
from typer.testing import CliRunner

from snellen.cards.card_json import as_json, write_json
from snellen.cards.files import card_without_run, file_name, read_card, write_files
from snellen.cards.markdown_reader import read_markdown
from snellen.cards.markdown_writer import document, write_markdown
from snellen.cards.printed_card import printable
from snellen.cli.main import app
from snellen.errors import SnellenError


@pytest.fixture(scope="module")
def card_set():
    return planted_deck()


def printed(card, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(printable(card))
    return out.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("rise(masks=500)", "rise-masks-500"),
        ("grad-cam++", "grad-cam++"),
        ("rise@petsiuk2018", "rise-petsiuk2018"),
        ("smoothgrad(of=gradient(fold=sum), spread=0.1)", "smoothgrad-of-gradient-fold-sum-spread-0.1"),
        ("x(path=../../etc)", "x-path-..-..-etc"),
    ],
)
def test_labels_make_sane_file_names(label, name):
    assert file_name(label) == name
    assert "/" not in file_name(label)


def test_a_card_of_a_run_is_written_in_all_forms_with_an_example(card_set, tmp_path):
    card = card_set.find("rise")
    paths = write_files(card, card_set, tmp_path / "new")
    assert {path.name for path in paths} == {f"rise-masks-100.{ending}" for ending in ("html", "md", "json", "png")}
    markdown_card = read_markdown((tmp_path / "new" / "rise-masks-100.md").read_text(encoding="utf-8"))
    assert markdown_card == document(card, "rise-masks-100.png")
    assert markdown_card.picture == "rise-masks-100.png"
    assert json.loads((tmp_path / "new" / "rise-masks-100.json").read_text()) == as_json(card)
    assert as_json(read_card(tmp_path / "new" / "rise-masks-100.json")) == as_json(card)
    assert (tmp_path / "new" / "rise-masks-100.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_terminal_shows_marks_words_numbers_and_the_literature_within_the_width(card_set, width):
    text = printed(card_set.find("grad-cam"), width)
    assert max(map(len, text.splitlines())) <= width
    for part in ("METHODOLOGY", "SENSITIVITY", "PERCEPTIBILITY", "● pass", "■ fail", "in the literature"):
        assert part in text
    again = printed(read_markdown(write_markdown(card_set.find("grad-cam"))), width)
    assert max(map(len, again.splitlines())) <= width
    assert "Grad-CAM" in again
    assert again.count("● pass") == text.count("● pass")


def test_a_card_without_a_run_says_so_and_knows_the_literature():
    card = card_without_run("integrated-gradients(steps=8)")
    assert card.method == "integrated-gradients(steps=8)"
    assert card.claims.endswith("with its default settings")
    assert card_without_run("integrated-gradients").claims.startswith("deterministic, complete")
    text = flat(printed(card, 120))
    assert "No run: this holds for every model." in text
    assert text.count("in the literature") == 25
    assert "a control, which knows nothing" in printed(card_without_run("random"), 120)


def test_a_note_on_the_run_stands_below_its_card(card_set):
    out = io.StringIO()
    Console(file=out, width=80).print(printable(card_set.find("rise"), ["'mine' is unfinished"]))
    assert "'mine' is unfinished" in out.getvalue()


def test_the_command_writes_and_shows_a_card_and_reads_it_back(tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["card", "xrai", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "XRAI" in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"xrai.html", "xrai.md", "xrai.json"}
    for ending in ("md", "json"):
        back = runner.invoke(app, ["card", str(tmp_path / f"xrai.{ending}")])
        assert back.exit_code == 0, back.output
        assert "● pass" in back.output
        assert "Repeatability" in back.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["card", "grad-cm"], "unknown method 'grad-cm'; did you mean"),
        (["card", "rise(mask=3)"], "has no setting 'mask'"),
        (["card", "nowhere.md"], "there is no card 'nowhere.md'"),
        (["card", "xrai", "--run", "nowhere"], "nowhere"),
    ],
)
def test_wrong_names_get_one_sentence(arguments, message, tmp_path):
    refusal = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)]).exception
    assert isinstance(refusal, SnellenError)
    assert message in str(refusal)
    assert "\n" not in str(refusal)


def test_a_file_that_cannot_be_read_or_written_is_told_by_its_name(card_set, tmp_path):
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SnellenError, match="cannot read the card"):
        read_card(tmp_path / "bad.md")
    (tmp_path / "odd.md").write_text("# Kites Saliency Card\n### Wind\n")
    with pytest.raises(SnellenError, match=r"odd.md', line 2: 'Wind' is no heading"):
        read_card(tmp_path / "odd.md")
    with pytest.raises(SnellenError, match="cannot write into"):
        write_files(card_set.find("rise"), card_set, Path(tmp_path / "bad.md"))
    assert write_json(card_set.find("rise")).endswith("}\n")


def test_a_public_card_is_shown_with_all_that_it_says():
    text = (
        "# Kites Saliency Card\nKites.\n## Methodology\nOne is flown.\n\n**References:**\n"
        "- *Original Paper*: [Flying](https://example.org/f)\n\n**Implementations and Tutorials:**\n"
        "- [kite](https://example.org/k)\n\n**Example:** A [red](https://example.org/r) kite.\n\n"
        '<img src="kite.png" alt="It is up." />\n### Computational Efficiency\nIt takes $1\\mathrm{e}{-2}$ s.\n'
        "## Sensitivity Testing\nOn a meadow.\n### Input Sensitivity\nTwice.\n\n"
        "&#128994; **Deletion**: Up, says [a paper](https://example.org/p_(1)).\n"
    )
    output = flat(printed(read_markdown(text), 100))
    for part in (
        "One is flown.", "It takes 1e-2 s.", "On a meadow.", "Twice.", "● pass Deletion Up, says a paper.",
        "Original Paper: Flying https://example.org/f", "kite https://example.org/k",
        "Example: A red kite. (kite.png: It is up.)", "1 reference, 1 implementation, 1 result", "not tested",
    ):  # fmt: skip
        assert part in output, part
    assert "ORIGIN" not in printed(read_markdown("# Kites Saliency Card\n"), 80)
