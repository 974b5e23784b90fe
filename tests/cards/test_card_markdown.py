"""Cards go out as Markdown in the public collection's format and come back as they were."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.cards.generated_cards import cards, read_cards

from snellen.cards.bibliography import place_of, reference
from snellen.cards.card_set import card
from snellen.cards.literature import literature
from snellen.cards.markdown_format import CHAPTERS, ENTITIES, CardLink, CardResult, MarkdownCard
from snellen.cards.markdown_reader import read_markdown
from snellen.cards.markdown_writer import document, render, write_markdown
from snellen.cards.schema import Evidence, EvidenceSource, Finding
from snellen.errors import SnellenError
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METHODS
from snellen.suite.card_tests import TESTS
from snellen.verdicts import PairedDifference

RUN = EvidenceSource(
    kind="run", name="kites 12ab/34cd", model="kite net", data="40 images: kites", settings="target predicted, seed 0"
)

# A card in the public format, in our own words, with the habits of the cards that are found there: marks in the title, a
# field without its colon inside the bold, `[optional]`, a link over two lines, a result over two lines, another test's name,
# words between a heading and the first result.
PUBLIC = """\
<!-- some note -->
# **Kite Maps** Saliency Card
Kite maps are invented for this test.

## Methodology
A kite is flown over the picture.

It is not meant for storms.

**Developed by**: Nobody at all

**References:**
- *Original Paper*: [Flying kites
](https://example.org/kites.pdf)
- [A letter \\[sic\\]](https://example.org/letter)
- A conversation

**Implementations and Tutorials [optional]:** [kites](https://example.org/code_(1))

**Aliases:** flying, string

**Example:** A kite (left) and its `map` (right).

<img src="kite.png" alt="A red kite." width="400" />

### Determinism
Wind is random.

### Hyperparameter Dependence
* `string` is its length.
* `tail` is decoration.

### Model Agnosticism

### Computational Efficiency
An afternoon.

### Semantic Directness
High is high.

## Sensitivity Testing
All of it on one meadow.

### Input Sensitivity
The following was tried:

&#129000; **[Deletion](https://example.org/d)**: Kite maps are undecided. Tried on
a meadow.
&#128994; [**Insertion**](https://example.org/i): It rises.

- &#x1F7E5; **Perturbation Testing (LeRF)**: It falls.

### Label Sensitivity

Not tested.

### Model Sensitivity

## Perceptibility Testing

### Minimality
&#128997; **[Visual Sharpness](https://example.org/v)**:
Blurry from below.

### Perceptual Correspondence

## Citation [optional]

```bibtex
@misc{kites,
  # a line that is no heading
}
```
"""


def test_a_card_in_the_public_format_is_read_with_all_its_habits():
    markdown_card = read_markdown(PUBLIC)
    assert markdown_card == MarkdownCard(
        title="Kite Maps",
        summary="Kite maps are invented for this test.",
        methodology="A kite is flown over the picture.\n\nIt is not meant for storms.",
        developers="Nobody at all",
        shared_by="",
        references=(
            CardLink("Original Paper", "Flying kites", "https://example.org/kites.pdf"),
            CardLink("", "A letter [sic]", "https://example.org/letter"),
            CardLink("", "A conversation", ""),
        ),
        implementations=(CardLink("", "kites", "https://example.org/code_(1)"),),
        aliases=("flying", "string"),
        example="A kite (left) and its `map` (right).",
        picture="kite.png",
        caption="A red kite.",
        sections={
            "determinism": "Wind is random.",
            "hyperparameter-dependence": "* `string` is its length.\n* `tail` is decoration.",
            "computational-efficiency": "An afternoon.",
            "semantic-directness": "High is high.",
            "input-sensitivity": "The following was tried:",
        },
        measured={},
        results=(
            CardResult(
                attribute="input-sensitivity",
                test="Deletion",
                verdict="inconclusive",
                sentence="Kite maps are undecided. Tried on\na meadow.",
                url="https://example.org/d",
            ),
            CardResult(
                attribute="input-sensitivity",
                test="Insertion",
                verdict="pass",
                sentence="It rises.",
                url="https://example.org/i",
            ),
            CardResult(
                attribute="input-sensitivity",
                test="Perturbation Testing (LeRF)",
                verdict="fail",
                sentence="It falls.",
                url="",
            ),
            CardResult(
                attribute="minimality",
                test="Visual Sharpening",
                verdict="fail",
                sentence="Blurry from below.",
                url="https://example.org/v",
            ),
        ),
        citation="@misc{kites,\n  # a line that is no heading\n}",
        chapters={"Sensitivity Testing": "All of it on one meadow."},
    )


@pytest.mark.parametrize(
    "change",
    [
        html.unescape,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "  \n"),
        lambda text: re.sub(r"\n(\*\*(?:Developed|Ref|Impl|Ali|Exa))", r"\n- \1", text),
        lambda text: render(read_markdown(text)),
    ],
    ids=["characters", "windows", "byte order mark", "trailing spaces", "fields as items", "written again"],
)
def test_it_says_the_same_however_it_was_saved(change):
    assert read_markdown(change(PUBLIC)) == read_markdown(PUBLIC)


@pytest.mark.parametrize(
    ("below", "kept"),
    [
        ("**BibTeX:**\n```\n@misc{a,\n}\n\n@misc{b,\n}\n```\n", "@misc{a,\n}\n\n@misc{b,\n}"),
        ("```\n@misc{a,\n}\n```\n\n**APA:**\n\nNobody (1900). Kites.", "@misc{a,\n}\n\n**APA:**\n\nNobody (1900). Kites."),
        ("Nobody (1900). Kites.", "Nobody (1900). Kites."),
        ("**BibTeX:**\n```\n```\n", ""),
    ],
    ids=["two works", "APA too", "no BibTeX", "the template's"],
)
def test_a_citation_is_kept_whatever_its_form(below, kept):
    markdown_card = read_markdown(f"# Kites Saliency Card\n## Citation [optional]\n{below}\n")
    assert markdown_card.citation == kept
    assert read_markdown(render(markdown_card)) == markdown_card


def test_fields_that_are_missing_are_empty():
    markdown_card = read_markdown("# Kites Saliency Card\n## Methodology\nFly.\n")
    assert markdown_card == MarkdownCard(title="Kites", methodology="Fly.")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# **Kite Maps** Saliency Card", "# Kites", "line {at}: a card's title is '# <Method> Saliency Card', but this is"),
        (
            "# **Kite Maps** Saliency Card\n",
            "",
            "line {at}: a card begins with '# <Method> Saliency Card', not",
        ),
        ("## Citation [optional]", "# Kites Saliency Card", "line {at}: a card has one title"),
        ("### Determinism", "### Determinsm", "line {at}: 'Determinsm' is no heading of a card"),
        ("### Model Sensitivity", "### Label Sensitivity", "line {at}: the heading 'Label Sensitivity' is there twice"),
        ("**Aliases:** f", "**Alias:** f", "line {at}: 'Alias' is no field of a card"),
        ("**Aliases:** f", "**References:** f", "line {at}: the field 'References' is there twice"),
        (
            "&#129000; **[Del",
            "&#128308; **[Del",
            "line {at}: '&#128308;' is no verdict; begin the line with &#128994;",
        ),
        ("&#129000; **[Del", "[&#128994; / &#129000; / &#128997;] **[Del", "line {at} gives all three verdicts"),
        ("&#129000; **[Del", "**[Del", "line {at}: this result has no verdict; begin the line with &#128994;"),
        ("&#129000; **[Del", "(pass) **[Del", "line {at}: this result has no verdict; begin the line with &#128994;"),
        ("&#129000; **[Deletion](https://example.org/d)**", "&#129000; Deletion", "line {at}: after its verdict a result"),
        ("[Deletion]", "[Sparsity]", "line {at}: 'Sparsity' is a test of minimality, not of input sensitivity"),
    ],
)
def test_a_card_that_breaks_a_rule_is_refused_in_a_sentence_that_names_the_line(old, new, message):
    at = PUBLIC[: PUBLIC.index(old)].count("\n") + 1
    message = message.replace("{at}", str(at + 2 if not new else at))
    with pytest.raises(SnellenError, match=re.escape(message)) as refusal:
        read_markdown(PUBLIC.replace(old, new))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "no card\n", "```\n# A Saliency Card\n```"])
def test_what_is_no_card_is_refused(text):
    with pytest.raises(SnellenError, match="no saliency card"):
        read_markdown(text)


@pytest.mark.slow
@given(read_cards())
@settings(max_examples=150, deadline=None)
def test_whatever_a_card_says_comes_back(made):
    markdown_card = made()
    assert read_markdown(render(markdown_card)) == markdown_card


@given(cards())
@settings(max_examples=60, deadline=None)
def test_whatever_was_measured_comes_back(made):
    measured_card = made()
    written = document(measured_card, "a.png")
    assert read_markdown(write_markdown(measured_card, "a.png")) == written
    assert [(at.test, at.verdict) for at in written.results] == [
        (at.test, at.verdict)
        for part in CHAPTERS.values()
        for key in part.values()
        for at in sorted([*measured_card.measured(key), *measured_card.literature(key)], key=_place)
    ]
    assert written.sections == measured_card.prose.sections


def _place(row: Evidence) -> int:
    return TESTS[row.attribute].index(row.test)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_card_of_every_method_goes_out_and_comes_back(name):
    text = write_markdown(card(name, name))
    markdown_card = read_markdown(text)
    assert markdown_card == document(card(name, name))
    headings = [heading for chapter, part in CHAPTERS.items() for heading in (chapter, *part)]
    assert re.findall(r"^##+ (.*)$", text, re.MULTILINE) == [*headings, "Citation"]
    assert markdown_card.references[0].role == ("Original Paper" if markdown_card.developers else "Reference")
    assert markdown_card.citation.startswith(("@article{", "@inproceedings{", "@misc{"))
    assert len(markdown_card.results) == len(card(name, name).evidence)
    assert text.count("Not tested.") == sum(
        not markdown_card.of(key)
        for key in ("input-sensitivity", "label-sensitivity", "model-sensitivity", "minimality", "perceptual-correspondence")
    )


def evidence(verdict: str, **more) -> Evidence:
    against = (
        PairedDifference("edge", 0.2, 0.1, 0.3, 0.02, 1.0, 40),
        PairedDifference("random", 0.5, 0.4, 0.6, 0.02, 1.0, 40),
    )
    facts = {"against": against, "n": 40, "mean": 0.125, "low": 0.1, "high": 0.15, "higher_is_better": False} | more
    return Evidence(
        attribute="perceptual-correspondence",
        test="Localization Utility",
        metric="deletion(steps=3)",
        verdict=verdict,
        reason="as it is",
        source=RUN,
        **facts,
    )


def test_a_result_says_its_numbers_its_data_and_where_papers_disagree():
    text = write_markdown(card("grad-cam", "grad-cam", [evidence("pass", undefined=2)], {}, RUN))
    line = next(line for line in text.splitlines() if "Localization Utility" in line)
    assert line == (
        "&#128994; **[Localization Utility](https://arxiv.org/abs/1806.07421)**: Grad-CAM passes: as it is. "
        "`deletion(steps=3)` is 0.12 [0.10, 0.15] over 40 images; undefined on 2 more, lower is better. Its lead over edge, "
        "the hardest control, is +0.20 [+0.10, +0.30] on the same image. Evaluated with kite net on kites. "
        "The literature says otherwise: fail by Arun 2021 (Radiology:AI)."
    )
    assert "In the literature, fail by Arun 2021 (Radiology:AI): overlap below random-model reference." in text


def test_what_is_not_counted_has_no_glyph_and_what_was_measured_follows_its_prose():
    plain = card("grad-cam", "grad-cam", [evidence("not counted")], {}, RUN)
    finding = Finding(
        attribute="determinism", word="fixed", sentence="5 seeds gave one map.", share=1.0, numbers={}, source=RUN
    )
    measured_card = replace(plain, findings={**plain.findings, "determinism": finding})
    line = next(line for line in write_markdown(measured_card).splitlines() if "Not counted" in line)
    assert not any(entity in line for entity in ENTITIES.values())
    back = read_markdown(write_markdown(measured_card))
    assert back.of("perceptual-correspondence")[0].verdict == "not counted"
    assert back.sections["determinism"] == measured_card.prose.sections["determinism"]
    assert back.measured["determinism"] == "5 seeds gave one map. The model is kite net."
    assert "semantic-directness" not in back.measured  # judged, not measured
    everywhere = document(card("grad-cam", "grad-cam")).measured
    assert everywhere["determinism"].endswith("every seed gives the same map, as Snellen's own tests show.")
    assert everywhere["model-agnosticism"].startswith("It needs gradients of the model and a layer")
    assert "determinism" not in document(card("lime", "lime")).measured


def test_only_controls_that_a_paper_made_name_people():
    for name in METHODS:
        markdown_card = document(card(name, name))
        nobody = METHODS[name].traits.control and name != "fake-cam"
        assert bool(markdown_card.developers) != nobody, name
        assert (markdown_card.references[0].role == "Reference") == nobody, name


def test_names_that_users_gave_bring_no_html_along():
    card_with_html = card(
        "grad-cam",
        "grad-cam",
        [evidence("pass")],
        {},
        EvidenceSource(kind="run", name="r", model="<b>net", data="x", settings="y"),
    )
    assert "<b>" not in write_markdown(card_with_html)


def test_every_reference_can_be_taken_apart_and_every_published_result_be_found():
    for key in CITATIONS:
        work = reference(key)
        assert work, key
        assert work.title in CITATIONS[key]
        assert f"year = {{{work.year}}}" in work.bibtex()
    assert all(place_of(row.source.name).startswith("http") for _, row in literature())
    assert reference("bach2015").bibtex(["Sebastian Bach", "Wojciech Samek"]) == (
        "@article{bach2015,\n"
        "  title = {{On Pixel-Wise Explanations for Non-Linear Classifier Decisions by Layer-Wise Relevance Propagation}},\n"
        "  author = {Sebastian Bach and Binder and Montavon and Klauschen and Müller and Wojciech Samek},\n"
        "  journal = {PLoS ONE},\n  volume = {10},\n  number = {7},\n  year = {2015},\n}"
    )
    assert "author = {Haofan Wang and Zifan Wang and" in document(card("score-cam", "score-cam")).citation
    assert reference("nobody1900") is None
