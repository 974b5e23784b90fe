"""What can be wrong with a page in a browser: for fingers, for eyes, for screen readers, and for secrets."""

from __future__ import annotations

from pathlib import Path

from browsing import Visitor
from playwright.sync_api import Page, expect

from snellen.study.folder import Study

WIDTHS = (1280, 390, 320)
"""A desk, a phone, and a small phone, which is also a desk at four times the size."""

_SCRIPT = Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")
_NAMED = {"button", "link", "radio", "checkbox", "spinbutton", "slider", "textbox", "image", "progressbar", "group"}
"""Roles that are nothing to a screen reader without a name."""


def problems(page: Page) -> list[str]:
    """What is wrong at every width; the window stays at the last."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        found += [f"at {width}: {one}" for one in page.evaluate(_SCRIPT)]
    return found + unnamed(page)


def unnamed(page: Page) -> list[str]:
    """What a screen reader has no name for."""
    session = page.context.new_cdp_session(page)
    try:
        tree = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    found = []
    for node in tree:
        role, name = (str(node.get(one, {}).get("value", "")) for one in ("role", "name"))
        if not node.get("ignored") and role in _NAMED and not name.strip():
            found.append(f"a {role} has no name")
    return found


def settled(visitor: Visitor) -> None:
    """Waits until a page has everything that belongs to it, and the focus is where reading begins."""
    visitor.page.wait_for_load_state("load")
    expect(visitor.page.get_by_role("heading", level=1)).to_be_focused()


def secrets(study: Study) -> set[str]:
    """Words that no participant may ever read: arms, names of items and images, and keys."""
    found = {one.name for one in study.protocol.conditions} | {one.arm for one in study.protocol.conditions}
    for item in study.items:
        found |= {item.id, *item.samples, *item.further}
    return (found - {"none"}) | {study.key.hex(), str(study.subject["fingerprint"]), "truth"}


def leaks(study: Study, text: str) -> list[str]:
    """The secrets that a text betrays."""
    return [one for one in sorted(secrets(study)) if one in text]
