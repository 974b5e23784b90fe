"""Recommends methods by a user's priorities: which meet the needs, in which order, and why.

The score of a method is the mean of its grades weighted by levels: essential 3, nice 1, unwanted 1 with 1 − grade,
unimportant 0; a grade that is not known counts ½. A need (an essential attribute) is *met* by a known grade
of at least ½, *not known* without a grade, and *missed* otherwise. `avoid_cost` and `black_box` are conditions that a method
meets, misses, or is not known to meet. Methods that meet everything come first, then those of which something is not known,
then those that miss something; each group by score, ties by name. Controls are never recommended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from snellen.cards.card_set import CardSet
from snellen.cards.priorities import Priorities
from snellen.cards.reasons import because, doubts, plain, remedies
from snellen.cards.schema import METHODOLOGY, TESTED, Card, Grade, Priority
from snellen.charts import numbers
from snellen.errors import SnellenError
from snellen.plugins.outside import UNSTATED
from snellen.plugins.registry import Attribute
from snellen.verdicts import run_certainty, run_sampling
from snellen.verdicts.rule import TOO_FEW

ENOUGH = 0.5
"""A need is met from this grade on."""

DRAWS = 2_000
"""Number of rankings with random weights that measure stability."""

SENSITIVITY = TESTED[:3]
"""The attributes without which a map does not show what the model does; low grades are always reported."""

INSIDE = frozenset({"gradients", "layer", "relu", UNSTATED})
"""Needs that a black box, which has only outputs, cannot fulfil; a method that does not state its needs may have them."""

NeedState = Literal["met", "not known", "missed"]
NEED_STATES: tuple[NeedState, ...] = ("met", "not known", "missed")


@dataclass(frozen=True, kw_only=True)
class Need:
    """A need, which is an essential attribute or a condition, and whether a method meets it."""

    name: str
    """Of the attribute or condition."""
    state: NeedState
    words: str
    """Why it has this state."""
    grade: Grade | None = None
    """None for a condition."""

    @property
    def short(self) -> float:
        """How much is missing, between 0 and 1."""
        if self.state == "met":
            return 0.0
        return ENOUGH - self.grade.share if self.grade and self.state == "missed" else 0.5


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One attribute in which two methods differ."""

    attribute: Priority
    own: float
    """The grade of the method, turned round where the attribute is unwanted."""
    other: float
    """The same of the other method."""
    method: str
    """Label of the other method."""
    weighed: float
    """Its contribution to the difference of the scores."""


@dataclass(frozen=True, kw_only=True)
class RankedMethod:
    """A method with its rank, and the reasons for it."""

    place: int
    """The rank, from 1."""
    card: Card
    score: float
    """The weighted mean of its grades; NaN where no attribute counts."""
    state: NeedState
    """The worst state of its needs."""
    needs: tuple[Need, ...]
    shares: Mapping[Priority, float]
    """By attribute that counts, its grade as it enters the score: 1 − grade if unwanted, ½ if not known."""
    decided: tuple[Difference, ...]
    """The attributes that rank it before the next method, the largest contribution first."""
    sacrifice: Difference | None
    """The attribute in which it is farthest behind the best method."""
    first: float
    """The share of rankings with random weights in which it is first; NaN if it is no contender."""
    pareto: bool
    """Whether no other contender is at least as good in all that counts and better in something."""

    @property
    def unmet(self) -> tuple[Need, ...]:
        """What it misses, or is not known to meet."""
        return tuple(need for need in self.needs if need.state != "met")


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The methods of a set of cards, ranked by a user's priorities."""

    card_set: CardSet
    priorities: Priorities
    places: tuple[RankedMethod, ...]
    """In the order of their ranks."""
    holds: float
    """The share of rankings with random weights in which the first three are the same, in the same order."""

    @property
    def qualified(self) -> tuple[RankedMethod, ...]:
        """The methods that meet all needs."""
        return tuple(ranked for ranked in self.places if ranked.state == "met")

    @property
    def contenders(self) -> tuple[RankedMethod, ...]:
        """The methods to choose from: those that qualify or, if there are none, those of which a need is not known."""
        return self.qualified or tuple(ranked for ranked in self.places if ranked.state == "not known")

    @property
    def level(self) -> tuple[RankedMethod, ...]:
        """The first contender, and those with the same score."""
        return tuple(contender for contender in self.contenders if _tied(contender.score) == _tied(self.contenders[0].score))

    @property
    def nearest(self) -> tuple[RankedMethod, ...]:
        """If none qualifies, the three closest methods: fewest unmet needs, then least missing, then best score."""
        if self.qualified:
            return ()
        order = sorted(
            self.places,
            key=lambda ranked: (len(ranked.unmet), round(sum(need.short for need in ranked.unmet), 9), ranked.place),
        )
        return tuple(order[:3])

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.qualified:
            best, meet = [ranked.card.method for ranked in self.level], "meets" if len(self.level) == 1 else "meet"
            others = len(self.qualified) - len(best)
            also = f", and {numbers.count(others, 'other method')} {'does' if others == 1 else 'do'} too" if others else ""
            if len(best) > 1 and not others:
                return f"{numbers.join_names(best)} {meet} your needs on this data, none better than the others."
            alike = ", with the same score" if len(best) > 1 else ""
            return f"{numbers.join_names(best)} {meet} your needs best on this data{alike}{also}."
        if not self.places:
            return "There is no method to choose from: all of this run are controls."
        if self.contenders:
            names = list(dict.fromkeys(plain(need.name) for contender in self.contenders for need in contender.unmet))
            are = "is" if len(names) == 1 else "are"
            return f"No method is shown to meet your needs on this data: {numbers.join_names(names)} {are} not known."
        return f"No method meets your needs on this data; {self._hardest()}."

    def _hardest(self) -> str:
        """The need that most methods miss."""
        counts: dict[str, int] = {}
        for ranked in self.places:
            for need in ranked.needs:
                if need.state == "missed":
                    counts[need.name] = counts.get(need.name, 0) + 1
        name = max(counts, key=lambda name: (counts[name], name))
        return f"{plain(name)} stops {counts[name]} of {len(self.places)}"

    @property
    def remedies(self) -> tuple[str, ...]:
        """What to measure if no method is shown to meet the needs."""
        if self.qualified:
            return ()
        close = sorted(
            {ranked.place: ranked for ranked in (*self.contenders[:3], *self.nearest)}.values(),
            key=lambda ranked: ranked.place,
        )
        unmet = list(dict.fromkeys(need.name for ranked in close for need in ranked.unmet))
        sentences = []
        unmeasured = [name for name in unmet if any(_unmeasured(ranked.card, name) for ranked in close)]
        if unmeasured:
            names = numbers.join_names([plain(name) for name in unmeasured])
            sentences.append(f"`snellen cards --run {self.card_set.run.folder}` measures {names}")
        for attribute in (attribute for attribute in self.priorities.at("essential") if attribute in unmet):
            sentences += remedies(
                [ranked.card for ranked in close if attribute in [need.name for need in ranked.unmet]], attribute
            )
        return tuple(sentences)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings: doubtful metrics in the deciding attributes, few images, and weak sensitivities."""
        deciding = [difference.attribute for ranked in self.contenders[:2] for difference in ranked.decided[:2]]
        cautions = (
            [doubts(self.contenders[0].card, attribute) for attribute in dict.fromkeys(deciding)] if self.contenders else []
        )
        tested = [
            evidence
            for ranked in self.places
            for evidence in ranked.card.evidence
            if evidence.attribute in self.priorities.weighed
        ]
        few = any(evidence.reason in TOO_FEW.values() for evidence in tested)
        if few or self.card_set.run.record.spec.stops_early:
            cautions.insert(0, run_certainty(self.card_set.run).words)
        elif (sampling := run_sampling(self.card_set.run)).shown_classes_only:
            cautions.insert(0, sampling.words)
        return (*self.card_set.notes, *(caution for caution in (*cautions, *self._weak_sensitivities()) if caution))

    def _weak_sensitivities(self) -> Iterator[str]:
        """Warnings where the first choice has a low sensitivity that the user did not ask for."""
        for ranked in self.contenders[:1]:
            words = weak_sensitivities(ranked.card, ranked.card.method)
            yield from (words[word] for word in words if self.priorities.level(word) == "unimportant")


def weak_sensitivities(card: Card, name: str) -> dict[Attribute, str]:
    """By sensitivity with a low grade, a warning for users who did not ask for it."""
    weak = {attribute: card.grades[attribute].share for attribute in SENSITIVITY if card.grades[attribute].share < ENOUGH}
    return {
        attribute: f"you did not ask for {plain(attribute)}, but {name} has only {share:.2f} there: "
        f"{because(card, attribute)}"
        for attribute, share in weak.items()
    }


def recommend(card_set: CardSet, priorities: Priorities, *, seed: int = 0) -> Recommendation:
    """Ranks the methods of a set of cards by priorities; `seed` is that of the random weights."""
    weighed = priorities.weighed
    if "people" in weighed and not card_set.studied:
        raise SnellenError(
            f"people were asked for, but no study with people belongs to '{card_set.run.folder}'; "
            "`snellen study join STUDY --run RUN` joins one that people have answered"
        )
    weights = np.array([priorities.weight(attribute) for attribute in weighed])
    cards = sorted(card_set.methods, key=lambda card: card.method)
    shares = np.array([[_share(card, attribute, priorities) for attribute in weighed] for card in cards]).reshape(
        len(cards), -1
    )
    scores = _scores(shares, weights)
    needs = [_needs(card, priorities) for card in cards]
    states = [_state(requirements) for requirements in needs]
    order = sorted(range(len(cards)), key=lambda row: (NEED_STATES.index(states[row]), -_tied(float(scores[row])), row))
    lead: NeedState = next((state for state in ("met", "not known") if state in states), "missed")
    contend = [row for row in order if states[row] == lead] if lead != "missed" else []
    first, holds = stability(shares[contend], weights, seed=seed)
    front = pareto(shares[contend])
    places = []
    for position, row in enumerate(order):
        after = order[position + 1] if position + 1 < len(order) else None
        contender = contend.index(row) if row in contend else None
        places.append(
            RankedMethod(
                place=position + 1,
                card=cards[row],
                score=float(scores[row]),
                state=states[row],
                needs=needs[row],
                shares=dict(zip(weighed, map(float, shares[row]), strict=True)),
                decided=_decided(shares, weights, weighed, row, after, cards)
                if after is not None and states[row] == states[after]
                else (),
                sacrifice=_sacrifice(cards, shares, weights, weighed, row),
                first=float(first[contender]) if contender is not None else math.nan,
                pareto=bool(front[contender]) if contender is not None else False,
            )
        )
    return Recommendation(card_set=card_set, priorities=priorities, places=tuple(places), holds=holds)


def stability(
    shares: Float[np.ndarray, "methods attributes"],
    weights: Float[np.ndarray, " attributes"],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[Float[np.ndarray, " methods"], float]:
    """How often each method is first, and how often the first three keep their order, with random weights.

    Each weight is multiplied by a log-uniform factor between ½ and 2. Methods are in the order of their ranks, which breaks
    ties. NaN if no attribute counts.
    """
    if not shares.size:
        return np.full(len(shares), math.nan), math.nan
    generator = np.random.default_rng(seed)
    moved = weights * 2.0 ** generator.uniform(-1, 1, (draws, len(weights)))
    scores = np.round(_scores(shares, moved), 9)
    order = np.argsort(-scores, axis=1, kind="stable")
    first = np.bincount(order[:, 0], minlength=len(shares)) / draws
    top = min(3, len(shares))
    return first, float((order[:, :top] == np.arange(top)).all(axis=1).mean())


def pareto(shares: Float[np.ndarray, "methods attributes"]) -> list[bool]:
    """Whether no other method is at least as good in every attribute and better in one."""
    return [not any((other >= share).all() and (other > share).any() for other in shares) for share in shares]


def _scores(shares: Float[np.ndarray, "methods attributes"], weights: Float[np.ndarray, "*draws attributes"]) -> np.ndarray:
    """Weighted means; NaN if no attribute counts."""
    if not weights.shape[-1]:
        return np.full(len(shares), math.nan)
    return np.asarray(weights @ shares.T / weights.sum(axis=-1, keepdims=True))


def _tied(score: float) -> float:
    """A score for sorting: rounded, so that rounding errors break no tie; 0 where there is no score."""
    return 0.0 if math.isnan(score) else round(score, 9)


def _share(card: Card, attribute: Priority, priorities: Priorities) -> float:
    share = card.grades[attribute].share
    share = 0.5 if math.isnan(share) else share
    return 1 - share if priorities.level(attribute) == "unwanted" else share


def _needs(card: Card, priorities: Priorities) -> tuple[Need, ...]:
    needs = []
    for attribute in priorities.at("essential"):
        grade = card.grades[attribute]
        state: NeedState = "not known" if math.isnan(grade.share) else "met" if grade.share >= ENOUGH else "missed"
        needs.append(Need(name=attribute, state=state, words=because(card, attribute), grade=grade))
    if priorities.avoid_cost is not None:
        needs.append(_cost(card, priorities.avoid_cost))
    if priorities.black_box:
        inside = sorted(INSIDE.intersection(card.needs))
        words = f"needs the model's {numbers.join_names(inside)}" if inside else "needs only the model's outputs"
        words = "does not state what it needs of the model" if UNSTATED in inside else words
        needs.append(Need(name="black-box", state="missed" if inside else "met", words=words))
    return tuple(needs)


def _unmeasured(card: Card, name: str) -> bool:
    """Whether a need is not known because methodology was not measured yet."""
    attribute = "computational-efficiency" if name == "avoid-cost" else name
    return attribute in METHODOLOGY and attribute not in card.findings


def _state(needs: Sequence[Need]) -> NeedState:
    return max((need.state for need in needs), key=NEED_STATES.index, default="met")


def _cost(card: Card, limit: float) -> Need:
    if math.isnan(card.seconds):
        return Need(name="avoid-cost", state="not known", words="what a map costs was not measured")
    within = card.seconds <= limit
    words = (
        f"takes {numbers.duration(card.seconds)} per image, {'within' if within else 'more than'} {numbers.duration(limit)}"
    )
    return Need(name="avoid-cost", state="met" if within else "missed", words=words)


def _decided(
    shares: np.ndarray, weights: np.ndarray, weighed: Sequence[Priority], row: int, after: int, cards: Sequence[Card]
) -> tuple[Difference, ...]:
    if not len(weights):
        return ()
    gaps = weights * (shares[row] - shares[after]) / weights.sum()
    order = sorted(range(len(weighed)), key=lambda attribute: (-gaps[attribute], attribute))
    return tuple(
        Difference(
            attribute=weighed[attribute],
            own=float(shares[row, attribute]),
            other=float(shares[after, attribute]),
            method=cards[after].method,
            weighed=float(gaps[attribute]),
        )
        for attribute in order
        if gaps[attribute] > 1e-9
    )


def _sacrifice(
    cards: Sequence[Card], shares: np.ndarray, weights: np.ndarray, weighed: Sequence[Priority], row: int
) -> Difference | None:
    """The largest difference to the best method whose grade is known, over attributes with a known grade."""
    differences = []
    for column, attribute in enumerate(weighed):
        graded = [other for other, card in enumerate(cards) if not math.isnan(card.grades[attribute].share)]
        if row in graded:
            best = max(graded, key=lambda other: (shares[other, column], -other))
            behind = float(shares[best, column] - shares[row, column])
            differences.append(
                Difference(
                    attribute=attribute,
                    own=float(shares[row, column]),
                    other=float(shares[best, column]),
                    method=cards[best].method,
                    weighed=float(behind * weights[column]),
                )
            )
    worst = max(differences, key=lambda difference: (difference.other - difference.own, difference.weighed), default=None)
    return worst if worst and worst.other - worst.own > 1e-9 else None
