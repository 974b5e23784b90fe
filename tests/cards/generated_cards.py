"""Cards of every shape that hypothesis can think of: for tests of what is written and read back.

A strategy draws plain values and gives a function that makes the card of them: the types of its fields are checked by a
checker that draws at random, which hypothesis does not allow while it draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

from snellen.cards.card_set import card
from snellen.cards.markdown_format import CHAPTERS, CardLink, CardResult, MarkdownCard
from snellen.cards.schema import METHODOLOGY, TESTED, Card, Evidence, EvidenceSource, Finding
from snellen.plugins.registry import METHODS
from snellen.suite.card_tests import TESTS
from snellen.verdicts import PairedDifference, Trust
from snellen.verdicts.trust import TextBoxResult

_CHARACTERS = "abcXYZ019 éα🟢😀[]()*\\|&;<>#`\"'_~:.,-–±"
words = st.text(_CHARACTERS, max_size=30).map(lambda text: "w" + " ".join(text.split()))
"""Words on one line that begin with a letter; all else is allowed, marks of Markdown included."""

prose = st.lists(st.lists(words, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=3).map("\n\n".join)
names = words.map(lambda text: text.strip(" :*\\"))
urls = st.sampled_from(["", "https://example.org/a_(b)", "http://x.y/paper.pdf", "a%20b.html"])
verdicts = st.sampled_from(["pass", "fail", "inconclusive", "not counted"])
numbers = st.floats(allow_nan=True, allow_infinity=True)
_NAMES = sorted(METHODS)


@st.composite
def _results(draw: st.DrawFn) -> tuple[str, str, str, str, str]:
    attribute = draw(st.sampled_from(TESTED))
    test, verdict, sentence = draw(st.sampled_from(TESTS[attribute]) | names), draw(verdicts), draw(words)
    return attribute, test, verdict, f"Not counted: {sentence}" if verdict == "not counted" else sentence, draw(urls)


@st.composite
def read_cards(draw: st.DrawFn) -> Callable[[], MarkdownCard]:
    """What a Markdown card may say; results stand in the order of the card's headings."""
    links = st.lists(st.tuples(st.just("") | st.just("Original Paper"), names, urls), max_size=3)
    results, works, programs = draw(st.lists(_results(), max_size=6)), draw(links), draw(links)
    picture = draw(st.sampled_from(["", "a.png", 'odd "name" & <more>.png']))
    some = st.dictionaries(st.sampled_from(METHODOLOGY), prose, max_size=5)
    title = draw(names.filter(lambda text: "#" not in text and "*" not in text))
    summary, methodology, developers, sharer = draw(prose), draw(prose), draw(st.just("") | words), draw(st.just("") | words)
    aliases = tuple(draw(st.lists(names.filter(lambda text: "," not in text), max_size=3)))
    example, caption = draw(words) if picture else draw(st.just("") | words), draw(words) if picture else ""
    sections, measured = draw(some), draw(some)
    before = prose.filter(
        lambda text: not re.search(r"^\S*\s*\*\*\[", text, re.MULTILINE)
    )  # else a result without a verdict
    sections |= draw(st.dictionaries(st.sampled_from(TESTED), before, max_size=2))
    chapters = draw(st.dictionaries(st.sampled_from(["Sensitivity Testing", "Perceptibility Testing"]), prose, max_size=2))
    citation = draw(st.just("") | words.map(lambda text: f"@misc{{{text.replace('`', '')},\n# no heading\n}}"))
    ordered = [result for part in CHAPTERS.values() for key in part.values() for result in results if result[0] == key]
    return lambda: MarkdownCard(
        title=title,
        summary=summary,
        methodology=methodology,
        developers=developers,
        shared_by=sharer,
        references=tuple(CardLink(*link) for link in works),
        implementations=tuple(CardLink(*link) for link in programs),
        aliases=aliases,
        example=example,
        picture=picture,
        caption=caption,
        sections=sections,
        measured=measured,
        results=tuple(
            CardResult(attribute=attribute, test=test, verdict=verdict, sentence=sentence, url=url)
            for attribute, test, verdict, sentence, url in ordered
        ),
        citation=citation,
        chapters=chapters,
    )


@st.composite
def _evidence(draw: st.DrawFn) -> Callable[[EvidenceSource], Evidence]:
    attribute = draw(st.sampled_from(TESTED))
    test, metric = draw(st.sampled_from(TESTS[attribute])), draw(st.sampled_from(["deletion", "mine(of=[1])"]))
    verdict, reason, mean, low, high = draw(verdicts), draw(words), draw(numbers), draw(numbers), draw(numbers)
    n, undefined, higher = draw(st.integers(0, 99)), draw(st.integers(0, 9)), draw(st.none() | st.booleans())
    rivals = draw(st.lists(st.tuples(st.just("edge"), *[numbers] * 5, st.integers(0, 9)), max_size=2))
    advice, believed, judged = draw(st.just("") | words), draw(st.tuples(*[numbers] * 3)), draw(st.booleans())
    return lambda source: Evidence(
        attribute=attribute,
        test=test,
        metric=metric,
        verdict=verdict,
        reason=reason,
        source=source,
        rule="the rule",
        mean=mean,
        low=low,
        high=high,
        n=n,
        undefined=undefined,
        higher_is_better=higher,
        against=tuple(PairedDifference(*rival) for rival in rivals),
        advice=advice,
        trust=(
            Trust(metric, ("edge",), *believed, TextBoxResult(metric, *believed, 3, "blind"))  # type: ignore[call-arg]
            if judged
            else None
        ),
        summary="what it means",
    )


@st.composite
def cards(draw: st.DrawFn) -> Callable[[], Card]:
    """A card of a registered method with evidence that was never measured."""
    free = draw(st.lists(st.text(_CHARACTERS + "\n", max_size=20), min_size=4, max_size=4))
    evidence = draw(st.lists(_evidence(), max_size=5))
    findings_by_key = draw(st.dictionaries(st.sampled_from(METHODOLOGY[:4]), st.tuples(words, numbers), max_size=4))
    name = draw(st.sampled_from(_NAMES))
    label = draw(st.sampled_from([name, f"{name}(steps=3)"]))

    def made() -> Card:
        source = EvidenceSource(kind="run", name=free[0], model=free[1], data=free[2], settings=free[3])
        findings = {
            key: Finding(
                attribute=key,
                word="often",
                sentence=sentence,
                share=share,
                numbers={"seconds": share, "tried": [1, "a"]},
                source=source,
            )
            for key, (sentence, share) in findings_by_key.items()
        }
        return card(name, label, [build(source) for build in evidence], findings, source if evidence else None)

    return made
