"""Cards: what is known of a method, written by people and measured on a user's own model, attribute by attribute."""

from snellen.cards.card_set import CardSet as CardSet
from snellen.cards.schema import Card as Card
from snellen.cards.schema import Evidence as Evidence
