"""The page of an analysis, and the command that writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.study.analysed import CAREFUL, by_name, study_between, study_within
from tests.study.linked_study import linked
from typer.testing import CliRunner

from snellen.cli.main import app
from snellen.study.analysis import Analysis, analyse
from snellen.study.analysis.page import SIMULATED, page, write_analysis
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.joining.agreement import agree
from snellen.study.simulation.behaviour import Behaviour, simulate_answers
from snellen.study.simulation.effect import Effect

VOID = {"meta", "line", "circle", "rect", "br", "wbr", "img", "polyline"}


class Structure(HTMLParser):
    """What a page is made of; complains where something is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def named(self, *names: str) -> Iterator[dict[str, str | None]]:
        return (attrs for tag, attrs in self.tags if tag in names)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_between(tmp_path_factory.mktemp("study") / "s")


@pytest.fixture(scope="module")
def analysis(study: Study) -> Analysis:
    return analyse(study, simulate_answers(study, 48, Effect.of("grad-cam=1.0", study.protocol), seed=1))


@pytest.fixture(scope="module")
def text(analysis: Analysis) -> str:
    return page(analysis)


def test_the_page_is_whole_and_asks_for_nothing_else(text: str) -> None:
    structure = Structure(text)
    assert not list(structure.named("script", "link", "img", "iframe"))
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert "@import" not in text
    assert "url(" not in text
    ids = [attributes["id"] for _, attributes in structure.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in structure.named("a"):
        assert str(link["href"]).removeprefix("#") in ids, link
    headings = [int(tag[1]) for tag, _ in structure.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == 1
    assert headings.count(1) == 1


def test_every_picture_has_words_and_every_table_has_heads(text: str) -> None:
    structure = Structure(text)
    pictures = list(structure.named("svg"))
    assert len(pictures) > 40
    assert all(picture.get("aria-label") or picture.get("aria-hidden") == "true" for picture in pictures)
    assert text.count("<table") == text.count("<thead") == text.count("<tbody")
    assert text.count('class="scroll" tabindex="0"') + text.count('class="scroll"><table>') == text.count("<table")


def test_simulated_is_written_everywhere_and_only_where_it_is_true(analysis: Analysis, text: str) -> None:
    figures = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    assert len(figures) > 10
    assert all(SIMULATED in figure for figure in figures)
    assert text.index(SIMULATED) < text.index('id="conclusions"')
    assert "<title>Simulated: " in text
    real = page(replace(analysis, setup=replace(analysis.setup, simulated=False)))
    assert not re.search("simulated", real.split("<main>")[1], re.IGNORECASE)
    assert "48 participants began" in real
    assert "48 simulated participants began" in text


def test_every_arm_and_every_outcome_is_named(analysis: Analysis, text: str) -> None:
    for section in ("outcomes", "tests", "mixed", "equality", "calibration", "quality"):
        part = text[text.index(f'id="{section}"') :]
        assert all(arm in part[:60_000] for arm in ("grad-cam", "lime", "no explanation")), section
    for outcome in analysis.outcomes:
        assert text.count(outcome.facts.title) > 4


def test_every_participant_is_a_dot(analysis: Analysis, text: str) -> None:
    swarms = re.findall(r'<svg class="swarm".*?</svg>', text, re.DOTALL)
    assert sum(swarm.count('class="faint methodology"') for swarm in swarms) == sum(
        some.n for outcome in analysis.outcomes for some in outcome.distributions
    )


def test_what_was_found_stands_before_everything_else(analysis: Analysis, text: str) -> None:
    first = text[text.index('id="conclusions"') : text.index("<nav")]
    assert first.count("<li>") == len(analysis.outcomes)
    outcome = by_name(analysis)["class-accuracy"]
    assert outcome.conclusion == "differ"
    assert "Best with grad-cam" in first


def test_names_bring_no_html_along(analysis: Analysis) -> None:
    setup = replace(analysis.setup, title="<script>alert(1)</script>", arms=("<b>x</b>", "none"))
    evil = replace(analysis, setup=setup)
    assert "<script>" not in page(evil)
    assert "<b>x</b>" not in page(evil)


def test_numbers_are_kept_for_programs(analysis: Analysis, tmp_path: Path) -> None:
    values = json.loads(write_analysis(analysis, tmp_path)[1].read_text())
    outcome = by_name(analysis)["betting"]
    kept = next(some for some in values["readings"] if some["facts"]["name"] == "betting")
    assert kept["comparison"]["decision"]["p"] == outcome.comparison.decision.p
    assert [some["n"] for some in kept["distributions"]] == [some.n for some in outcome.distributions]
    assert values["simulated"] is True
    assert values["schema"] == 1
    assert values["protocol"] == analysis.setup.protocol
    assert kept["mixed"]["variances"] == outcome.mixed.variances  # type: ignore[union-attr]


def test_whether_metrics_predict_people_is_told_where_a_run_is_given(tmp_path: Path, text: str) -> None:
    study, run = linked(tmp_path / "s", tasks=[{"task": "class-accuracy", "items": 8, "practice": 0}], scales=[])
    collected = simulate_answers(study, 24, Effect(mix=CAREFUL), seed=1)
    html = page(analyse(study, collected, agree(run, collected, study)))
    Structure(html)
    assert html.index('id="quality"') < html.index('id="agreement"') < html.index('id="provenance"')
    assert "knowing" in html
    assert 'id="agreement"' not in text


def test_within_subjects_the_page_names_its_own_tests(tmp_path: Path) -> None:
    study = study_within(tmp_path / "s")
    text = page(analyse(study, simulate_answers(study, 12, Effect(mix=CAREFUL), seed=1)))
    Structure(text)
    assert "paired t" in text
    assert "grad-cam → " in text  # groups are orders
    assert "Welch&#39;s t<" not in text


# The command -------------------------------------------------------------------------------------------------------------


def fill(study: Study, people: int) -> None:
    """Simulated participants answer into the study's own database."""
    store = AnswerStore.open(study)
    crowd = Behaviour.of(study, Effect(mix=CAREFUL)).participants(people, 1)
    for row in range(people):
        person = store.admit(token=f"t{row}", language="en", simulated=True, recruited={})
        replies, turn = crowd.participant(row), 0
        pages = study.pages(person.group, person.number)
        for place, shown_page in enumerate(pages):
            store.reply(
                person,
                shown_page.id,
                replies.content(shown_page, turn),
                replies.seconds(shown_page),
                last=place == len(pages) - 1,
            )
            turn += shown_page.kind == "attention"
    store.close()


def test_the_command_writes_a_report_beside_the_study(tmp_path: Path) -> None:
    study = study_between(tmp_path / "s")
    fill(study, 18)
    done = CliRunner().invoke(app, ["study", "analyse", str(study.folder), "--simulated"])
    assert done.exit_code == 0, done.output
    assert SIMULATED in done.output
    assert "18 simulated participants began" in " ".join(done.output.split())
    assert (study.folder / "simulated-analysis" / "analysis.html").exists()
    real = CliRunner().invoke(app, ["study", "analyse", str(study.folder), "--out", str(tmp_path / "out")])
    assert "Nobody has taken part yet." in real.output
    assert SIMULATED not in (tmp_path / "out" / "analysis.html").read_text()


def test_a_folder_that_is_none_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["study", "analyse", str(tmp_path)])
    assert done.exit_code != 0
