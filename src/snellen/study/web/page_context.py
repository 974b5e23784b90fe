"""What a page shows, as values for its template; they must not hold the name of an arm, or the truth of items that count."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.charts.html_page import TemplateValues
from snellen.study.folder import Study
from snellen.study.participation import Reply
from snellen.study.protocol import NONE
from snellen.study.schedule import CHOICES, Page
from snellen.study.stimuli import Item, Picture
from snellen.study.tasks import Answer, Task, find_task

AHEAD = 2
"""Trials whose pictures are loaded in advance."""


def page_context(
    study: Study, language: str, pages: tuple[Page, ...], position: int, replies: Mapping[str, Reply]
) -> TemplateValues:
    """The values of one page for its template.

    Args:
        study: The study.
        language: Of the participant.
        pages: All pages of the participant.
        position: Which of them is shown, from 0.
        replies: By id of the page, what the participant replied so far.
    """
    page = pages[position]
    facts: TemplateValues = {"maps": "" if page.condition.arm == NONE else page.condition.presentation}
    if page.kind == "change":
        facts["change"] = _change(page, pages[position - 1])
    elif page.kind == "task":
        facts |= {"task": page.task, "practice": position + 1 < len(pages) and pages[position + 1].practice}
    elif page.kind == "attention":
        facts |= {"requested": page.requested, "choices": range(1, CHOICES + 1)}
    elif page.kind == "scale":
        facts |= _scale(study, language, page)
    elif page.item is not None:
        facts |= _item(page.item, page)
        if page.kind == "feedback":
            reply = replies[pages[position - 1].id]
            facts |= _feedback(find_task(page.item.task), page.item, Answer.of(reply.content))
            facts["ends"] = position + 1 == len(pages) or not pages[position + 1].practice
    return facts


def _change(page: Page, before: Page) -> str:
    if page.condition.arm == NONE:
        return "gone"
    return "begin" if before.condition.arm == NONE else "other"


def _scale(study: Study, language: str, page: Page) -> TemplateValues:
    scale = study.scales[page.scale]
    return {
        "heading": scale.titles[language],
        "introduction": scale.introductions[language],
        "answers": scale.answers[language],
        "statements": scale.statements[language],
        "since": study.protocol.design == "within",
    }


def _item(item: Item, page: Page) -> TemplateValues:
    return {
        "task": item.task,
        "form": find_task(item.task).form,
        "practice": item.practice,
        "about": item.about,
        "pictures": list(zip(item.pictures[page.condition.name], item.predictions, strict=True)),
        "alt": "photograph" if page.condition.arm == NONE else page.condition.presentation,
        "further": item.choices,
    }


def _feedback(task: Task, item: Item, answer: Answer) -> TemplateValues:
    """The answer to a practice item and the right answer; practice items are never shown again."""
    facts: TemplateValues = {"answer": answer, "score": round(task.score_answer(item.truth, answer))}
    if isinstance(item.truth, tuple):
        return facts | {"judged": list(zip(item.choices, item.truth, strict=True))}
    return facts | {"truth": None if item.truth is None else round(item.truth)}


def pictures_of(page: Page) -> tuple[Picture, ...]:
    """Every picture on a page."""
    if page.item is None:
        return ()
    return (*page.item.pictures[page.condition.name], *page.item.choices)


def ahead(pages: tuple[Page, ...], position: int) -> list[str]:
    """The names of the pictures of the next trials, which the browser loads in advance."""
    trials = [page for page in pages[position + 1 :] if page.kind == "trial"][:AHEAD]
    return [picture.name for trial in trials for picture in pictures_of(trial)]
