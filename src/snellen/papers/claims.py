"""Claims of papers: a sentence, the rule that decides it from measured numbers, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Data = TypeVar("Data")
ClaimVerdict = Literal["holds", "does not hold", "cannot be decided"]


class MissingError(LookupError):
    """A number that a claim needs was not measured."""


@dataclass(frozen=True)
class RuleResult:
    """Whether a claim holds, and the numbers that decide it, in words."""

    holds: bool
    numbers: str = ""
    """Empty where the rule reports none."""


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """A claim after its rule was applied."""

    section: str
    """Of the paper; empty where the paper has only one table."""
    sentence: str
    """The claim in words."""
    holds: bool | None
    """None where too little was measured to decide."""
    numbers: str
    """The numbers that decide, or what is missing."""
    reason: str = ""
    """What was measured to explain why the claim does not hold."""
    among: str = "paper"
    """The methods that the claim is about: "paper" for the paper's own, "all" for all that were run."""

    @property
    def verdict(self) -> ClaimVerdict:
        """The result in words."""
        if self.holds is None:
            return "cannot be decided"
        return "holds" if self.holds else "does not hold"


@dataclass(frozen=True, kw_only=True)
class Claim(Generic[Data]):
    """A conclusion of a paper. The rule raises `MissingError` where the data cannot decide it."""

    sentence: str
    rule: Callable[[Data], RuleResult]
    """Decides the claim."""
    section: str = ""
    """Of the paper; empty where the paper has only one table."""
    explain: Callable[[Data], str] | None = None
    """Measures what may explain why the claim does not hold."""
    note: str = ""
    """What a reader should know about the claim."""
    any_methods: bool = False
    """Whether the claim makes sense for other methods than the paper's."""

    def decide(self, data: Data, *, among: str = "paper") -> ClaimResult:
        """Applies the rule; where the claim does not hold, adds a reason as far as one was measured."""
        try:
            decision = self.rule(data)
        except MissingError as missing:
            return ClaimResult(section=self.section, sentence=self.sentence, holds=None, numbers=str(missing), among=among)
        return ClaimResult(
            section=self.section,
            sentence=self.sentence,
            holds=decision.holds,
            numbers=decision.numbers,
            reason="" if decision.holds else self._reason(data),
            among=among,
        )

    def _reason(self, data: Data) -> str:
        try:
            return "" if self.explain is None else self.explain(data)
        except MissingError:
            return ""


def all_of(*rules: Callable[[Data], RuleResult]) -> Callable[[Data], RuleResult]:
    """The rule that all of these rules hold."""
    return lambda data: RuleResult(all(rule(data).holds for rule in rules))


def none_of(*rules: Callable[[Data], RuleResult]) -> Callable[[Data], RuleResult]:
    """The rule that none of these rules holds."""
    return lambda data: RuleResult(not any(rule(data).holds for rule in rules))


def joined_explanations(*explanations: Callable[[Data], str]) -> Callable[[Data], str]:
    """Several explanations, one after the other."""
    return lambda data: "; ".join(explain(data) for explain in explanations)
