"""Reads Markdown cards: those of Snellen, and those of the public collection, which vary in format."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from snellen.cards.markdown_format import (
    CHAPTERS,
    ENTITIES,
    MEASURED,
    NOT_TESTED,
    PEOPLE,
    CardLink,
    CardResult,
    MarkdownCard,
)
from snellen.cards.schema import METHODOLOGY, Priority
from snellen.errors import SnellenError, nearest
from snellen.plugins.registry import Attribute
from snellen.suite.card_tests import TESTS
from snellen.verdicts import Verdict

FIELDS = ("Developed by", "Shared by", "References", "Implementations and Tutorials", "Aliases", "Example")

OTHER_NAMES = {
    "LeRF": "Perturbation Testing (LeRF)",
    "MoRF": "Perturbation Testing (MoRF)",
    "Pointing Game": "The Pointing Game",
    "Sparcity": "Sparsity",
    "Visual Sharpness": "Visual Sharpening",
}
"""By name of a test on some public cards, its name in the template."""

_HEADINGS: dict[str, Priority | None] = {
    **dict.fromkeys([*CHAPTERS, "Citation"]),
    **{heading: attribute for chapter in CHAPTERS.values() for heading, attribute in chapter.items()},
    PEOPLE: "people",
}
_VERDICTS: dict[str, Verdict] = {html.unescape(entity): verdict for verdict, entity in ENTITIES.items()}
_CHOICES = ", ".join(f"{entity} ({verdict})" for verdict, entity in ENTITIES.items())
_LINKED = r"\[(?P<{0}>(?:\\.|[^\[\]\\])*)\]\((?P<{0}_url>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)"
_TEST = re.compile(
    rf"(?:\*\*(?:{_LINKED.format('a')}|(?P<b>(?:\\.|[^*\\])+?))\*\*|\[\*\*(?P<c>(?:\\.|[^*\\])+)\*\*\]\((?P<c_url>[^()\s]*)\))"
    r"\s*:?\s*(?P<sentence>.*)",
    re.DOTALL,
)
_BEGINS = re.compile(r"(?:[-*]\s+)?(?P<open>\[\s*)?(?P<glyph>&#\w+;|[\U0001F300-\U0001FAFF])\ufe0f?\s*")
_FIELD = re.compile(r"(?:[-*]\s+)?\*\*([^*:]+?)\s*:?\*\*\s*:?\s*(.*)")


@dataclass(frozen=True)
class _Line:
    number: int
    text: str


def read_markdown(text: str) -> MarkdownCard:
    """The content of a Markdown card. Raises `SnellenError` with the number of the line that breaks a rule."""
    lines = [
        _Line(number, part.rstrip())
        for number, part in enumerate(re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), start=1)
    ]
    title, parts = _parts(lines)
    card = _methodology(title, _text(parts[""]), parts.get("Methodology", []))
    sections: dict[Priority, str] = {}
    measured: dict[Attribute, str] = {}
    results: list[CardResult] = []
    for heading, attribute in _HEADINGS.items():
        if attribute is None or heading not in parts:
            continue
        if attribute not in METHODOLOGY:
            introduction, section_results = _results(parts[heading], attribute)
            results += section_results
            if introduction and introduction != NOT_TESTED:
                sections[attribute] = introduction
            continue
        prose, mark, numbers = f"\n{_text(parts[heading])}".partition(f"\n{MEASURED}")
        if prose.strip():
            sections[attribute] = prose.strip()
        if mark:
            measured[attribute] = numbers.strip()
    chapters = {name: _text(parts.get(name, [])) for name in CHAPTERS if name != "Methodology"}
    return replace(
        card,
        sections=sections,
        measured=measured,
        results=tuple(results),
        citation=_citation(parts.get("Citation", [])),
        chapters={name: text for name, text in chapters.items() if text},
    )


def _parts(lines: Sequence[_Line]) -> tuple[str, dict[str, list[_Line]]]:
    """The title, and by heading the lines below it; the lines below the title have an empty heading."""
    title: str | None = None
    parts: dict[str, list[_Line]] = {}
    current: list[_Line] = []  # lines before the title are not part of the card
    fenced = False
    for line in lines:
        fenced ^= line.text.lstrip().startswith("```")
        heading_match = None if fenced else re.fullmatch(r"(#{1,3})\s+(.*?)\s*#*", line.text)
        if heading_match is None:
            current.append(line)
            continue
        name = _bare(heading_match[2])
        if len(heading_match[1]) == 1:
            ending = re.fullmatch(r"(.*?)\s+Saliency Card", name, re.IGNORECASE)
            if ending is None or title is not None:
                rule = "a card has one title" if title is not None else "a card's title is '# <Method> Saliency Card'"
                raise SnellenError(f"line {line.number}: {rule}, but this is '{line.text}'")
            title, name = ending[1], ""
        elif title is None:
            raise SnellenError(f"line {line.number}: a card begins with '# <Method> Saliency Card', not with '{line.text}'")
        elif name not in _HEADINGS:
            raise SnellenError(f"line {line.number}: '{name}' is no heading of a card{nearest(name, _HEADINGS)}")
        if name in parts:
            raise SnellenError(f"line {line.number}: the heading '{name}' is there twice; keep one")
        current = parts[name] = []
    if title is None:
        raise SnellenError("line 1: no line is a card's title, '# <Method> Saliency Card', so this is no saliency card")
    return title, parts


def _methodology(title: str, summary: str, lines: Sequence[_Line]) -> MarkdownCard:
    """A card with its title, its summary, and the prose and fields of the chapter on methodology."""
    prose: list[_Line] = []
    fields: dict[str, list[_Line]] = {}
    current = prose
    for line in lines:
        match = _FIELD.fullmatch(line.text)
        name = _bare(match[1]) if match else ""
        if match and name in FIELDS:
            if name in fields:
                raise SnellenError(f"line {line.number}: the field '{name}' is there twice; keep one")
            current = fields[name] = [_Line(line.number, match[2])]
        elif match and fields and line.text.split("**")[1].endswith(":"):
            raise SnellenError(f"line {line.number}: '{name}' is no field of a card{nearest(name, FIELDS)}")
        else:
            current.append(line)
    example, picture, caption = _picture(_text(fields.get("Example", [])))
    aliases = _text(fields.get("Aliases", []))
    return MarkdownCard(
        title=title,
        summary=summary,
        methodology=_text(prose),
        developers=_text(fields.get("Developed by", [])),
        shared_by=_text(fields.get("Shared by", [])),
        references=_links(fields.get("References", [])),
        implementations=_links(fields.get("Implementations and Tutorials", [])),
        aliases=tuple(filter(None, (part.strip() for part in aliases.replace("\n", " ").split(",")))),
        example=example,
        picture=picture,
        caption=caption,
    )


def _picture(text: str) -> tuple[str, str, str]:
    """The text of an example, the address of its picture, and the description of the picture."""
    if tag := re.search(r"<img\b[^>]*>", text, re.DOTALL):
        facts = dict(re.findall(r'(\w+)="([^"]*)"', tag[0]))
        picture, caption = html.unescape(facts.get("src", "")), html.unescape(facts.get("alt", ""))
    elif tag := re.search(r"!\[([^\]]*)\]\(([^)\s]*)\)", text):
        picture, caption = tag[2], tag[1]
    else:
        return text, "", ""
    return (text[: tag.start()] + text[tag.end() :]).strip(), picture, caption


def _links(lines: Sequence[_Line]) -> tuple[CardLink, ...]:
    """The items of a list; an item may continue on the next line, even within its link."""
    items: list[str] = []
    for line in lines:
        if match := re.match(r"\s*[-*]\s+(.*)", line.text):
            items.append(match[1])
        elif line.text and items:
            items[-1] += f" {line.text.strip()}"
        elif line.text:
            items.append(line.text)
    return tuple(map(_link, items))


def _link(item: str) -> CardLink:
    role, rest = "", item.strip()
    if match := re.match(r"\*([^*]+?):?\*\s*:?\s*(.*)", rest):
        role, rest = match[1], match[2]
    if linked := re.fullmatch(_LINKED.format("name"), rest):
        return CardLink(role, _unescaped(linked["name"]).strip(), linked["name_url"])
    return CardLink(role, rest, "")


def _results(lines: Sequence[_Line], attribute: Priority) -> tuple[str, list[CardResult]]:
    """The introduction of a section, and its results, which begin with a glyph or say that they are not counted."""
    introduction: list[_Line] = []
    blocks: list[list[_Line]] = []
    for before, line in zip([_Line(0, ""), *lines], lines, strict=False):
        uncounted = not before.text and re.match(r"\*\*.*\*\*:? Not counted", line.text)
        if uncounted or _BEGINS.match(line.text):
            blocks.append([line])
        elif not before.text and re.match(r"\S{0,12}\s*\*\*\[", line.text):
            raise SnellenError(f"line {line.number}: this result has no verdict; begin the line with {_CHOICES}")
        else:
            (blocks[-1] if blocks else introduction).append(line)
    return _text(introduction), [_result(block, attribute) for block in blocks]


def _result(block: Sequence[_Line], attribute: Priority) -> CardResult:
    where, text = f"line {block[0].number}", _text(block)
    verdict: Verdict = "not counted"
    if begins := _BEGINS.match(text):
        if begins["open"]:
            raise SnellenError(f"{where} gives all three verdicts, as the template does; keep one of them")
        if (glyph := html.unescape(begins["glyph"])) not in _VERDICTS:
            raise SnellenError(f"{where}: '{begins['glyph']}' is no verdict; begin the line with {_CHOICES}")
        verdict, text = _VERDICTS[glyph], text[begins.end() :]
    match = _TEST.fullmatch(text)
    if match is None:
        raise SnellenError(f"{where}: after its verdict a result names its test in bold, '**[Deletion](address)**: ...'")
    test = _unescaped(match["a"] or match["b"] or match["c"]).strip().removesuffix(":")
    test = OTHER_NAMES.get(test, test)
    home = next((key for key, tests in TESTS.items() if test in tests), attribute)
    if home != attribute:
        raise SnellenError(f"{where}: '{test}' is a test of {home.replace('-', ' ')}, not of {attribute.replace('-', ' ')}")
    return CardResult(
        attribute=attribute,
        test=test,
        verdict=verdict,
        sentence=match["sentence"].strip(),
        url=match["a_url"] or match["c_url"] or "",
    )


def _citation(lines: Sequence[_Line]) -> str:
    """The citation without Markdown marks; some cards have several works, or text that is not BibTeX."""
    marks = re.compile(r"\s*```\w*|\*\*BibTeX:?\*\*:?", re.IGNORECASE)
    return "\n".join(line.text for line in lines if not marks.fullmatch(line.text)).strip("\n")


def _bare(name: str) -> str:
    """The name of a heading or field without marks, colon and the template's `[optional]`."""
    return re.sub(r"\s*\[optional\]", "", name, flags=re.IGNORECASE).replace("*", "").strip().removesuffix(":").strip()


def _text(lines: Sequence[_Line]) -> str:
    return "\n".join(line.text for line in lines).strip()


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
