"""A card as a small HTML table for notebooks."""

from __future__ import annotations

from html import escape

from snellen.cards.card_view import glance, title
from snellen.cards.schema import Card


def card_html(card: Card) -> str:
    """The grade of each attribute and its reason; no script, no network."""
    rows = [
        f"<tr><th>{escape(grade['title'])}</th><td>{escape(grade['mark'])} {escape(grade['word'])} {grade['number']}</td>"
        f"<td>{escape(str(grade['reason']))}</td></tr>"
        for category in glance(card)
        for grade in category["grades"]
    ]
    source = f"{card.source.model}, {card.source.data}" if card.source else "holds for every model; nothing was measured"
    return f"<h4>{escape(title(card))}</h4><table>{''.join(rows)}</table><p><small>{escape(source)}</small></p>"
