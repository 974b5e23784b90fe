"""What can be wrong with a page in a browser: for fingers, for eyes, for screen readers, and for secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect
from tests.study.browsing import Visitor, screenshots

from snellen.study.answers.overview import group_names
from snellen.study.folder import Study
from snellen.study.web.sentences import Sentences

DESK, PHONE, NARROW = 1280, 390, 320
"""Widths: a small phone is also a desk at four times the size of letters."""

_SCRIPT = Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")
_NAMED = {
    "button",
    "link",
    "radio",
    "checkbox",
    "spinbutton",
    "slider",
    "textbox",
    "image",
    "progressbar",
    "group",
    "radiogroup",
}
"""Roles that are nothing to a screen reader without a name."""


def looked_at(visitor: Visitor, name: str, widths: tuple[int, ...] = (DESK, PHONE, NARROW)) -> None:
    """Looks at a page at several widths, and takes pictures of it where they are wanted."""
    problems, folder = unnamed(visitor.page), screenshots()
    language = visitor.page.locator("html").get_attribute("lang")
    for width in widths:
        visitor.page.set_viewport_size({"width": width, "height": 800})
        problems += [f"at {width}: {problem}" for problem in visitor.page.evaluate(_SCRIPT)]
        if folder is not None:
            # As high as the page is: Chromium forgets where it had scrolled to when it is asked for more than the window.
            high = visitor.page.evaluate("document.documentElement.scrollHeight")
            visitor.page.set_viewport_size({"width": width, "height": high})
            visitor.page.screenshot(path=folder / f"{language}-{name}-{width}.png")
    assert not problems, f"{name}: {problems}"
    assert not visitor.complaints, f"{name}: {visitor.complaints}"


def settled(visitor: Visitor) -> None:
    """Waits until a page has everything that belongs to it, and the focus is where reading begins."""
    visitor.page.wait_for_load_state("load")
    expect(visitor.page.get_by_role("heading", level=1)).to_be_focused()


def unnamed(page: Page) -> list[str]:
    """What a screen reader has no name for."""
    roles = ((_value(node, "role"), _value(node, "name")) for node in _told(page) if not node.get("ignored"))
    return [f"a {role} has no name" for role, name in roles if role in _NAMED and not name.strip()]


def announced(page: Page) -> tuple[str, str]:
    """The role of what has the focus, and what a screen reader says about it and about the groups that it is in."""
    nodes = {str(node["nodeId"]): node for node in _told(page)}
    focused = [
        node
        for node in nodes.values()
        if _value(node, "role") != "RootWebArea"
        and any(own["name"] == "focused" and own["value"].get("value") for own in node.get("properties", ()))
    ]
    assert len(focused) == 1
    at: dict[str, Any] | None = focused[0]
    texts = []
    while at is not None:
        if at is focused[0] or _value(at, "role") in ("group", "radiogroup"):
            texts += [_value(at, "name"), _value(at, "description")]
        at = nodes.get(str(at.get("parentId")))
    return _value(focused[0], "role"), " ".join(texts)


def _told(page: Page) -> list[dict[str, Any]]:
    session = page.context.new_cdp_session(page)
    try:
        nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    return nodes


def _value(node: dict[str, Any], name: str) -> str:
    return str(node.get(name, {}).get("value", ""))


# Languages -----------------------------------------------------------------------------------------------------------------

_EDGES = " \n.:,;“”„“"
_TEXTS = """() => {
  const found = document.title.split(" · ")[0].split(": ");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("[aria-hidden=true]")) found.push(node.data);
  }
  for (const one of document.querySelectorAll("*"))
    for (const name of ["alt", "aria-label", "aria-valuetext", "placeholder", "title"])
      if (one.hasAttribute(name)) found.push(one.getAttribute(name));
  return found.map((one) => one.replace(/\\s+/g, " ").trim()).filter((one) => /\\p{L}/u.test(one));
}"""


def strangers(visitor: Visitor, language: str) -> list[str]:
    """What stands on the page, or is told by a screen reader, and is no part of a sentence in this language."""
    server = visitor.server
    pattern = _fragments(server.sentences[language], server.study, language)
    return [text for text in visitor.page.evaluate(_TEXTS) if not pattern.fullmatch(text.strip(_EDGES))]


def _fragments(sentences: Sentences, study: Study, language: str) -> re.Pattern[str]:
    """Every sentence, cut where something bold or a new paragraph begins; words that are filled in can be anything."""
    texts = list(sentences.texts.values())
    for scale in study.scales.values():
        texts += [scale.titles[language], scale.introductions[language]]
        texts += [*scale.answers[language], *scale.statements[language]]
    parts = {part for text in texts for part in re.split(r"\*\*|`|\n\s*\n", text)}
    names = {
        study.protocol.title,
        *group_names(study.protocol),
        *(condition.name for condition in study.protocol.conditions),
    }
    names |= {word for item in study.items for word in (*item.predictions, item.about)}
    whole = {" ".join(part.split()).strip(_EDGES) for part in parts}
    patterns = [
        re.sub(r"\\\{[a-z_]+\\\}", ".+", re.escape(text)) for text in whole if not re.fullmatch(r"\{[a-z_]+\}", text)
    ]
    # A word that stands alone is a number or somebody's random name.
    patterns.append("[0-9a-fA-F]+")
    sentence = "|".join([*patterns, *map(re.escape, names)])
    return re.compile(rf"(?:{sentence})(?:\W+(?:{sentence}))?")


# Secrets -------------------------------------------------------------------------------------------------------------------


def secrets(study: Study) -> set[str]:
    """Words that no participant may ever read: arms, names of items and images, and keys."""
    names = {condition.name for condition in study.protocol.conditions} | {
        condition.arm for condition in study.protocol.conditions
    }
    for item in study.items:
        names |= {item.id, *item.samples, *item.further}
    return (names - {"none"}) | {study.key.hex(), str(study.subject["fingerprint"]), "truth"}


def leaks(study: Study, text: str) -> list[str]:
    """The secrets that a text betrays."""
    return [secret for secret in sorted(secrets(study)) if secret in text]
