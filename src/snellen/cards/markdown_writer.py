"""Writes cards as Markdown in the format of the public collection, so that they can be contributed there."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

from snellen import __version__
from snellen.cards.bibliography import place_of, reference
from snellen.cards.card_view import NEEDS, is_tested
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
from snellen.cards.people import study_line
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
    """The content of the Markdown of a card."""
    prose = card.prose
    cite = METHODS[card.name].traits.cite if card.name in METHODS else next(iter(prose.references), "")  # type: ignore[attr-defined]
    keys = dict.fromkeys([cite, *prose.references]) if cite else prose.references
    work = reference(cite)
    original = (
        "Reference" if card.control and not prose.developers else "Original Paper"
    )  # the cited paper uses the control and did not propose it
    caption = f"A map of `{card.method}`" + (f" for {_safe(card.source.model)}." if card.source else ".")
    return MarkdownCard(
        title=prose.title,
        summary=prose.summary,
        methodology=prose.methodology,
        developers=numbers.join_names(prose.developers) if prose.developers else "",
        shared_by=_shared(card),
        references=tuple(_reference(key, original if key == cite else "See Also") for key in keys),
        implementations=tuple(CardLink("", name, url) for name, url in prose.implementations.items()),
        aliases=prose.aliases,
        example=caption if example else "None here; `snellen card` with a run draws one on your own pictures.",
        picture=example or "",
        caption=f"A picture and the map that {prose.title} gives of it." if example else "",
        sections={key: prose.sections[key] for key in METHODOLOGY},
        measured=_measured(card),
        results=tuple(_result(card, evidence) for attribute in PRIORITIES[5:] for evidence in in_order(card, attribute)),
        citation=work.bibtex(prose.developers) if work else "",
    )


def render(card: MarkdownCard) -> str:
    """The content of a card as Markdown text."""
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
                prose = card.sections.get(attribute, "")
                blocks.append(_lines(f"### {heading}", prose))
                blocks += map(_line, card.of(attribute)) if card.of(attribute) else [] if prose else [NOT_TESTED]
    if card.of("people") or "people" in card.sections:
        blocks += [_lines(f"## {PEOPLE}", card.sections.get("people", "")), *map(_line, card.of("people"))]
    if card.citation:
        blocks += ["## Citation", f"**BibTeX:**\n```\n{card.citation}\n```"]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _lines(heading: str, text: str) -> str:
    return f"{heading}\n{text}" if text else heading


def _line(result: CardResult) -> str:
    name = re.sub(r"([\\\[\]*])", r"\\\1", result.test)
    linked = f"[{name}]({result.url})" if result.url else name
    return " ".join(filter(None, [ENTITIES.get(result.verdict, ""), f"**{linked}**:", result.sentence]))


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
    """By attribute of methodology, what was measured or is shown by tests; not semantic directness, which is judged."""
    needs = " and ".join(NEEDS.get(need, need) for need in card.needs) or "only the model's outputs"
    by = "as Snellen's own tests show" if is_tested(card) else "by its own claim"
    sentences: dict[Attribute, str] = {"model-agnosticism": f"It needs {needs}, {by}."}
    if card.claims.startswith("deterministic"):
        sentences["determinism"] = f"With its default settings every seed gives the same map, {by}."
    sentences |= {key: _finding(finding) for key, finding in card.findings.items() if key != "semantic-directness"}
    return {key: sentences[key] for key in METHODOLOGY if key in sentences}


def _finding(finding: Finding) -> str:
    """The sentence of a finding, and the model that it is about."""
    sentence = _safe(finding.sentence)
    return f"{sentence} The model is {_safe(finding.source.model)}." if finding.source else sentence


def in_order(card: Card, attribute: Priority) -> list[Evidence]:
    """The evidence on an attribute in the order of its tests; measurements come before the literature."""
    tests = TESTS[attribute] if attribute != "people" else ()
    order: dict[str, int] = {test: number for number, test in enumerate(tests)}
    return sorted(
        [*card.measured(attribute), *card.literature(attribute)],
        key=lambda evidence: order.get(evidence.test, len(order)),
    )


def _result(card: Card, evidence: Evidence) -> CardResult:
    if not evidence.own:
        return CardResult(
            attribute=evidence.attribute,
            test=evidence.test,
            verdict=evidence.verdict,
            sentence=_published(evidence),
            url=place_of(evidence.source.name),
        )
    name = (evidence.metric or "").partition("(")[0].partition("@")[0]
    work = reference(METRICS[name].traits.cite) if name in METRICS else None  # type: ignore[attr-defined]
    others = [other for measured, other in card.disagreements if measured == evidence]
    sentence = _answered(card, evidence) if evidence.by_people else _tested(card, evidence, others)
    return CardResult(
        attribute=evidence.attribute,
        test=evidence.test,
        verdict=evidence.verdict,
        sentence=sentence,
        url=work.url if work else "",
    )


def _published(evidence: Evidence) -> str:
    where = (
        "By construction." if evidence.source.data == "by construction" else f"Evaluated with {_safe(evidence.source.data)}."
    )
    return f"In the literature, {evidence.verdict} by {_safe(evidence.source.name)}: {_safe(evidence.reason)}. {where}"


def _verdict_sentence(card: Card, evidence: Evidence) -> str:
    verb = _VERBS.get(evidence.verdict)
    return f"{card.prose.title} {verb}: {_safe(evidence.reason)}." if verb else f"Not counted: {_safe(evidence.reason)}."


def _tested(card: Card, evidence: Evidence, others: Sequence[Evidence]) -> str:
    """The measurement in a few sentences with numbers."""
    sentences = [_verdict_sentence(card, evidence)]
    if evidence.n:
        which = (
            "" if evidence.higher_is_better is None else f", {'higher' if evidence.higher_is_better else 'lower'} is better"
        )
        undefined = f"; undefined on {evidence.undefined} more" if evidence.undefined else ""
        mean = f"{numbers.short(evidence.mean)} {numbers.interval(evidence.low, evidence.high, evidence.n)}"
        sentences.append(f"`{evidence.metric}` is {mean} over {numbers.count(evidence.n, 'image')}{undefined}{which}.")
    rivals = [rival for rival in evidence.against if not math.isnan(rival.low)]
    if rivals:
        near = min(rivals, key=lambda rival: rival.low)
        gain = f"{numbers.signed(near.mean)} {numbers.interval(near.low, near.high, near.n, signs=True)}"
        sentences.append(f"Its lead over {near.control}, the hardest control, is {gain} on the same image.")
    if evidence.note:
        sentences.append(f"The verdict {evidence.note}.")
    if evidence.advice:
        sentences.append(f"{evidence.advice[0].upper()}{evidence.advice[1:]}.")
    if evidence.n or evidence.undefined:
        sentences.append(_where(evidence.source.model, evidence.source.data))
    if evidence.trust and evidence.trust.marks:
        sentences.append(f"The metric counts {evidence.trust.weight:.2f} of 1 here: {'; '.join(evidence.trust.marks)}.")
    if others:
        papers = "; ".join(f"{paper.verdict} by {_safe(paper.source.name)}" for paper in others)
        sentences.append(f"The literature says otherwise: {papers}.")
    return " ".join(sentences)


def _answered(card: Card, evidence: Evidence) -> str:
    """The result of a study in a few sentences with numbers."""
    sentences = [_verdict_sentence(card, evidence)]
    if evidence.n:
        better = "higher" if evidence.higher_is_better else "lower"
        mean = f"{numbers.short(evidence.mean)} {numbers.interval(evidence.low, evidence.high, evidence.n)}"
        sentences.append(f"{_safe(evidence.summary)} The mean is {mean} over {evidence.counted}, {better} is better.")
    for pair in evidence.against:
        gain = f"{numbers.signed(pair.mean)} {numbers.interval(pair.low, pair.high, pair.n, signs=True)}"
        sentences.append(f"The difference to people with {_safe(pair.control)} is {gain}, positive is better.")
    if evidence.advice:
        sentences.append(f"{evidence.advice[0].upper()}{evidence.advice[1:]}.")
    sentences.append(f"{_safe(study_line(evidence)[0].upper() + study_line(evidence)[1:])}; {_safe(evidence.source.model)}.")
    return " ".join(sentences)


def _where(model: str, data: str) -> str:
    kind = re.sub(r"^\d+ images?: ", "", data)  # the number of images is in another sentence
    return f"Evaluated with {_safe(model)} on {_safe(kind)}."


def _safe(text: str) -> str:
    """Text from users or papers on one line, with HTML escaped."""
    return html.escape(" ".join(text.split()), quote=False)
