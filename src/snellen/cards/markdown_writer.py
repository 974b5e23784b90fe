"""Cards as Markdown in the format of the public collection, so that one can be contributed there."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

from snellen import __version__
from snellen.cards.bibliography import place_of, reference
from snellen.cards.card_view import NEEDS, proven
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
from snellen.cards.people import told
from snellen.cards.schema import METHODOLOGY, PRIORITIES, Card, Evidence, Finding, Priority
from snellen.charts import numbers
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS, METRICS, Attribute
from snellen.suite.card_tests import TESTS

_VERBS = {"pass": "passes", "fail": "fails", "inconclusive": "is inconclusive"}


def write_markdown(card: Card, example: str | None = None) -> str:
    """The card as Markdown; `example` is the address of a picture that shows a map of the method."""
    return render(document(card, example))


def document(card: Card, example: str | None = None) -> MarkdownCard:
    """What the Markdown of a card says."""
    prose = card.prose
    cite = METHODS[card.name].traits.cite if card.name in METHODS else next(iter(prose.references), "")  # type: ignore[attr-defined]
    keys = dict.fromkeys([cite, *prose.references]) if cite else prose.references
    work = reference(cite)
    original = "Reference" if card.control and not prose.developers else "Original Paper"  # it uses the control
    shown = f"A map of `{card.method}`" + (f" for {_safe(card.source.model)}." if card.source else ".")
    return MarkdownCard(
        prose.title,
        prose.summary,
        prose.methodology,
        numbers.join_names(prose.developers) if prose.developers else "",
        _shared(card),
        tuple(_reference(key, original if key == cite else "See Also") for key in keys),
        tuple(CardLink("", name, url) for name, url in prose.implementations.items()),
        prose.aliases,
        shown if example else "None here; `snellen card` with a run draws one on your own pictures.",
        example or "",
        f"A picture and the map that {prose.title} gives of it." if example else "",
        {key: prose.sections[key] for key in METHODOLOGY},
        _measured(card),
        tuple(_result(card, one) for attribute in PRIORITIES[5:] for one in in_order(card, attribute)),
        work.bibtex(prose.developers) if work else "",
    )


def render(card: MarkdownCard) -> str:
    """The Markdown of what a card says."""
    fields = [
        f"**Developed by:** {card.developers}" if card.developers else "",
        f"**Shared by:** {card.shared_by}" if card.shared_by else "",
        _links("References", card.references),
        _links("Implementations and Tutorials", card.implementations),
        f"**Aliases:** {', '.join(card.aliases)}" if card.aliases else "",
        f"**Example:** {card.example}" if card.example else "",
        f'<img src="{html.escape(card.picture)}" alt="{html.escape(card.caption)}" width="400" />' if card.picture else "",
    ]
    blocks = [_lines(f"# {card.title} Saliency Card", card.summary)]
    for chapter, headings in CHAPTERS.items():
        if chapter == "Methodology":
            blocks += [_lines(f"## {chapter}", card.methodology), *fields]
        else:
            blocks.append(_lines(f"## {chapter}", card.chapters.get(chapter, "")))
        for heading, attribute in headings.items():
            if attribute in METHODOLOGY:
                blocks.append(_lines(f"### {heading}", card.sections.get(attribute, "")))
                blocks.append(f"{MEASURED} {card.measured[attribute]}" if attribute in card.measured else "")
            else:
                said = card.sections.get(attribute, "")
                blocks.append(_lines(f"### {heading}", said))
                blocks += map(_line, card.of(attribute)) if card.of(attribute) else [] if said else [NOT_TESTED]
    if card.of("people") or "people" in card.sections:
        blocks += [_lines(f"## {PEOPLE}", card.sections.get("people", "")), *map(_line, card.of("people"))]
    if card.citation:
        blocks += ["## Citation", f"**BibTeX:**\n```\n{card.citation}\n```"]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _lines(heading: str, text: str) -> str:
    return f"{heading}\n{text}" if text else heading


def _line(one: CardResult) -> str:
    name = re.sub(r"([\\\[\]*])", r"\\\1", one.test)
    linked = f"[{name}]({one.url})" if one.url else name
    return " ".join(filter(None, [ENTITIES.get(one.verdict, ""), f"**{linked}**:", one.sentence]))


def _links(heading: str, links: Sequence[CardLink]) -> str:
    if not links:
        return ""
    lines = [f"**{heading}:**"]
    for link in links:
        name = re.sub(r"([\\\[\]])", r"\\\1", link.name) if link.url else link.name
        role = f"*{link.role}*: " if link.role else ""
        lines.append(f"- {role}{f'[{name}]({link.url})' if link.url else name}")
    return "\n".join(lines)


def _reference(key: str, role: str) -> CardLink:
    work = reference(key)
    if work is None:
        return CardLink(role, CITATIONS.get(key, key), "")
    return CardLink(role, work.title if work.url else CITATIONS[key], work.url)


def _shared(card: Card) -> str:
    where = f", from the run {_safe(card.source.name)} ({_safe(card.source.settings)})" if card.source else ""
    settings = f", with the settings `{card.method}`" if card.method != card.name else ""
    return f"Snellen {__version__}{where}{settings}"


def _measured(card: Card) -> dict[Attribute, str]:
    """What was measured of each attribute of methodology, or else shown by tests; directness is judged instead."""
    needs = " and ".join(NEEDS.get(need, need) for need in card.needs) or "nothing but the model's answers"
    by = "as Snellen's own tests show" if proven(card) else "by its own claim"
    told: dict[Attribute, str] = {"model-agnosticism": f"It needs {needs}, {by}."}
    if card.claims.startswith("deterministic"):
        told["determinism"] = f"With its default settings every seed gives the same map, {by}."
    told |= {key: _finding(finding) for key, finding in card.findings.items() if key != "semantic-directness"}
    return {key: told[key] for key in METHODOLOGY if key in told}


def _finding(one: Finding) -> str:
    """A sentence, and of which model it is true."""
    told = _safe(one.sentence)
    return f"{told} The model is {_safe(one.source.model)}." if one.source else told


def in_order(card: Card, attribute: Priority) -> list[Evidence]:
    """The evidence on an attribute test by test, what was measured before what papers say."""
    tests = TESTS[attribute] if attribute != "people" else ()
    place: dict[str, int] = {test: at for at, test in enumerate(tests)}
    return sorted(
        [*card.measured(attribute), *card.literature(attribute)],
        key=lambda one: place.get(one.test, len(place)),
    )


def _result(card: Card, one: Evidence) -> CardResult:
    if not one.own:
        return CardResult(one.attribute, one.test, one.verdict, _published(one), place_of(one.source.name))
    name = (one.metric or "").partition("(")[0].partition("@")[0]
    work = reference(METRICS[name].traits.cite) if name in METRICS else None  # type: ignore[attr-defined]
    others = [other for mine, other in card.disagreements if mine == one]
    said = _answered(card, one) if one.by_people else _tested(card, one, others)
    return CardResult(one.attribute, one.test, one.verdict, said, work.url if work else "")


def _published(one: Evidence) -> str:
    where = "By construction." if one.source.data == "by construction" else f"Evaluated with {_safe(one.source.data)}."
    return f"In the literature, {one.verdict} by {_safe(one.source.name)}: {_safe(one.reason)}. {where}"


def _tested(card: Card, one: Evidence, others: Sequence[Evidence]) -> str:
    """What was measured in a few sentences, each with its numbers."""
    verb = _VERBS.get(one.verdict)
    said = [f"{card.prose.title} {verb}: {_safe(one.reason)}." if verb else f"Not counted: {_safe(one.reason)}."]
    if one.n:
        which = "" if one.higher_is_better is None else f", {'higher' if one.higher_is_better else 'lower'} is better"
        gone = f"; undefined on {one.undefined} more" if one.undefined else ""
        mean = f"{numbers.short(one.mean)} {numbers.interval(one.low, one.high, one.n)}"
        said.append(f"`{one.metric}` is {mean} over {numbers.count(one.n, 'image')}{gone}{which}.")
    rivals = [rival for rival in one.against if not math.isnan(rival.low)]
    if rivals:
        near = min(rivals, key=lambda rival: rival.low)
        gain = f"{numbers.signed(near.mean)} {numbers.interval(near.low, near.high, near.n, signs=True)}"
        said.append(f"Its lead over {near.control}, the hardest control, is {gain} on the same image.")
    if one.note:
        said.append(f"The verdict {one.note}.")
    if one.advice:
        said.append(f"{one.advice[0].upper()}{one.advice[1:]}.")
    if one.n or one.undefined:
        said.append(_where(one.source.model, one.source.data))
    if one.trust and one.trust.marks:
        said.append(f"The metric counts {one.trust.weight:.2f} of 1 here: {'; '.join(one.trust.marks)}.")
    if others:
        said.append(
            f"The literature says otherwise: {'; '.join(f'{at.verdict} by {_safe(at.source.name)}' for at in others)}."
        )
    return " ".join(said)


def _answered(card: Card, one: Evidence) -> str:
    """The same of people."""
    verb = _VERBS.get(one.verdict)
    said = [f"{card.prose.title} {verb}: {_safe(one.reason)}." if verb else f"Not counted: {_safe(one.reason)}."]
    if one.n:
        better = "higher" if one.higher_is_better else "lower"
        mean = f"{numbers.short(one.mean)} {numbers.interval(one.low, one.high, one.n)}"
        said.append(f"{_safe(one.summary)} The mean is {mean} over {one.counted}, {better} is better.")
    for each in one.against:
        gain = f"{numbers.signed(each.mean)} {numbers.interval(each.low, each.high, each.n, signs=True)}"
        said.append(f"The difference to people with {_safe(each.control)} is {gain}, positive is better.")
    if one.advice:
        said.append(f"{one.advice[0].upper()}{one.advice[1:]}.")
    said.append(f"{_safe(told(one)[0].upper() + told(one)[1:])}; {_safe(one.source.model)}.")
    return " ".join(said)


def _where(model: str, data: str) -> str:
    kind = re.sub(r"^\d+ images?: ", "", data)  # how many it were is said with the numbers
    return f"Evaluated with {_safe(model)} on {_safe(kind)}."


def _safe(text: str) -> str:
    """A name that a user gave, on one line and without HTML."""
    return html.escape(" ".join(text.split()), quote=False)
