"""The files of one card: HTML for people, Markdown for the public collection, JSON for programs, and a picture."""

from __future__ import annotations

import re
from pathlib import Path

from snellen.cards.card_json import read_json, write_json
from snellen.cards.card_set import CardSet, card
from snellen.cards.markdown_format import MarkdownCard
from snellen.cards.markdown_reader import read_markdown
from snellen.cards.markdown_writer import write_markdown
from snellen.cards.page import write_card
from snellen.cards.schema import Card
from snellen.charts.pictures import contact_sheet
from snellen.errors import SnellenError
from snellen.files.atomic import replacing, write_whole
from snellen.plugins.registry import METHODS, label, traits
from snellen.report.photographs import SHOWN
from snellen.runs.requirements import refuse_positive_controls


def file_name(method: str) -> str:
    """A label as the beginning of a file's name.

    >>> file_name("rise(masks=500)"), file_name("smoothgrad(of=grad-cam, spread=0.1)"), file_name("grad-cam++")
    ('rise-masks-500', 'smoothgrad-of-grad-cam-spread-0.1', 'grad-cam++')
    """
    return re.sub(r"[^A-Za-z0-9.+]+", "-", method).strip("-.")


def card_without_run(name: str) -> Card:
    """The card of a method without a run, by its name, perhaps with settings: `rise(masks=500)`, `mine.py:f`."""
    method = METHODS.parse(name, load=True)
    refuse_positive_controls([method], "it has no card: cards describe methods")
    return card(traits(method).name, label(method))


def read_card(path: Path) -> MarkdownCard | Card:
    """The card in a Markdown or JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SnellenError(f"there is no card '{path}'; give a file that exists, or the name of a method") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise SnellenError(f"cannot read the card '{path}' ({problem}); give a text file") from None
    try:
        return read_json(text) if path.suffix.lower() == ".json" else read_markdown(text)
    except SnellenError as problem:
        raise SnellenError(f"'{path}', {problem}") from None


def write_files(card: Card, card_set: CardSet | None, folder: Path) -> list[Path]:
    """Writes the card as HTML, Markdown and JSON, and a PNG example if the run stored a photograph; returns the paths."""
    name = file_name(card.method)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        picture = _example(card, card_set, folder / f"{name}.png") if card_set else None
        paths = [write_card(card, card_set, folder / f"{name}.html")]
        for ending, text in (("md", write_markdown(card, picture.name if picture else None)), ("json", write_json(card))):
            paths.append(folder / f"{name}.{ending}")
            write_whole(paths[-1], text.encode())
    except OSError as problem:
        raise SnellenError(f"cannot write into '{folder}' ({problem.strerror}); choose another --out") from None
    return [*paths, *([picture] if picture else [])]


def _example(card: Card, card_set: CardSet, path: Path) -> Path | None:
    """Writes the first photograph that the run stored, with the method's map of it."""
    for row in card_set.run.samples().head(SHOWN).to_dict("records"):
        photo = card_set.run.picture(str(row["sample"]))
        if photo is None:
            continue
        try:
            values = card_set.run.maps(card.method, [str(row["sample"])])[0]
        except SnellenError:  # an unfinished run may lack the map
            continue
        with replacing(path) as temporary:
            contact_sheet(photo, {card.method: values.astype("float64")}, {}, heading=str(row["sample"])).save(
                temporary, format="PNG"
            )
        return path
    return None
