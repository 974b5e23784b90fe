"""Claims: conclusions of a paper, each with the rule that decides it, asked of measured scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from snellen.textbox.report.bucket_means import BucketMeans, MissingError, counted, is_control, most, value


@dataclass(frozen=True)
class Claim:
    """A conclusion, in which the rule that decides it is written. `holds` is None where too little was run to decide.

    `numbers` are those that decide; `reason` is what was measured to explain why it does not hold; `among` says of which
    methods it speaks: the paper's, or all that were run.
    """

    section: str
    sentence: str
    holds: bool | None
    numbers: str
    reason: str = ""
    among: str = "paper"

    @property
    def verdict(self) -> str:
        """In words."""
        return "cannot be told" if self.holds is None else "holds" if self.holds else "does not hold"


Ask = Callable[[BucketMeans], tuple[bool, str]]
Why = Callable[[BucketMeans], str]


@dataclass(frozen=True)
class Question:
    """A claim before it is asked. `general` ones can be asked of any methods; `why` measures what may explain a no."""

    section: str
    sentence: str
    ask: Ask
    why: Why | None = None
    general: bool = False


def answer(question: Question, tally: BucketMeans, *, published: BucketMeans | None = None, among: str = "paper") -> Claim:
    """A question asked of the means of buckets; where the answer is no, why, as far as that can be measured."""
    try:
        holds, numbers = question.ask(tally)
    except MissingError as missing:
        return Claim(question.section, question.sentence, None, str(missing), among=among)
    reason = "" if holds or question.why is None else looked_for(partial(question.why, tally))
    claim = Claim(question.section, question.sentence, holds, numbers, reason, among)
    return claim if holds or published is None else read_otherwise(claim, answer(question, published))


def looked_for(why: Callable[[], str]) -> str:
    """A reason, or nothing where what was run does not tell."""
    try:
        return why()
    except MissingError:
        return ""


def read_otherwise(claim: Claim, published: Claim) -> Claim:
    """A claim that does not hold, and whether it does where maps are scored as the published code does."""
    word = "does not hold either" if published.holds is False else published.verdict
    told = f"scored as the published code does, it {word} ({published.numbers})"
    return replace(claim, reason="; ".join(filter(None, (claim.reason, told))))


def change(score: str, *, up: bool = False, worst: bool = False, every: bool = True) -> Ask:
    """Whether a score falls, or rises, from simple settings to complex ones, for every method or for most."""

    def ask(tally: BucketMeans) -> tuple[bool, str]:
        of = tally.worst if worst else tally.average
        before, after = (of(score, simple=simple)[tally.enough] for simple in (True, False))
        true = after > before if up else after < before
        told = f"{counted(true, after - before)}; mean over methods {value(before.mean())} to {value(after.mean())}"
        return bool(true.all()) if every else most(true), told

    return ask


def controls_move(score: str) -> Why:
    """What maps score that know nothing of the network: they move only because scenes and truths differ."""

    def why(tally: BucketMeans) -> str:
        before, after = (tally.beside(score, simple=one, named=is_control) for one in (True, False))
        moved = [f"{one} {value(before[one])} to {value(after[one])}" for one in before.index if one in after.index]
        if not moved:
            return "no control was run"
        return f"maps that know nothing of the network go, from simple settings to complex ones, {', '.join(moved)}"

    return why


def both(*reasons: Why) -> Why:
    """One after the other."""
    return lambda tally: "; ".join(why(tally) for why in reasons)
