"""Saliency cards: ten attributes of a method, described in prose and measured on a user's own model."""

from snellen.cards.card_set import CardSet as CardSet
from snellen.cards.schema import Card as Card
from snellen.cards.schema import Evidence as Evidence
