"""What tests see of a page: its tags, its headings, and its words."""

from __future__ import annotations

import html.parser
import re

VOID = {"meta", "img", "wbr", "line", "circle", "polyline", "br", "input"}


class Outline(html.parser.HTMLParser):
    """Collects tags, headings and addresses, and notes tags that were not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.wrong, self.headings, self.links, self.ids, self.labels = [], [], [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.links += [attributes[name] for name in ("src", "href", "srcset", "action") if name in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def words(text: str) -> str:
    """What a reader sees: without style, tags and line breaks."""
    text = re.sub(r"<(style|script)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text.replace("<wbr>", "")).split())
