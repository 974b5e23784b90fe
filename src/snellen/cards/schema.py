"""The content of a card: prose written by people, and evidence with its source, kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from snellen.charts import numbers
from snellen.charts.verdict_marks import ARROWS
from snellen.files.documents import Loose, Number
from snellen.plugins.registry import Attribute
from snellen.verdicts import PairedDifference, Trust, Verdict

ATTRIBUTES: tuple[Attribute, ...] = get_args(Attribute)
"""The ten attributes, in the order of the card."""

METHODOLOGY: tuple[Attribute, ...] = ATTRIBUTES[:5]
TESTED: tuple[Attribute, ...] = ATTRIBUTES[5:]

Priority = Literal[Attribute, "people"]
"""What a user can rank methods by: one of the ten attributes, or `people`, use to people, which needs a study."""

PRIORITIES: tuple[Priority, ...] = get_args(Priority)

Directness = Literal["plain", "trained", "expert"]
"""What a reader must know to say what a bright pixel means: nothing, gradients or layers, or the method's own rules."""


@dataclass(frozen=True, kw_only=True)
class Prose:
    """The prose of a method: the front matter and the sections of its file."""

    method: str
    title: str
    developers: tuple[str, ...]
    references: tuple[str, ...]
    """Keys of citations."""
    implementations: Mapping[str, str]
    """By name, the address."""
    aliases: tuple[str, ...]
    directness: Directness | None
    """None if it was not judged."""
    summary: str
    methodology: str
    """How the method works, in a paragraph or two."""
    sections: Mapping[Attribute, str]
    """The five attributes of methodology, each in a paragraph or two."""


@dataclass(frozen=True, kw_only=True)
class EvidenceSource:
    """Where evidence comes from: a run on a user's model, a paper, or a study with people (see `people`)."""

    kind: Literal["run", "literature", "people", "simulated people"]
    name: str
    """A run's identity, a citation, or the title of a study."""
    model: str
    data: str
    """The images, in words."""
    settings: str = ""
    """Such as target and seed."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One test of one method. Numbers are NaN, and `n` is 0, where the source has none, such as the literature."""

    attribute: Priority
    """Of the saliency card, or `people`."""
    test: str
    """Its name on the saliency card, or the label of the metric."""
    metric: str | None
    """Its label; None in the literature."""
    verdict: Verdict
    reason: str
    """Why this verdict."""
    source: EvidenceSource
    rule: str = ""
    """The rule of the verdict, in words."""
    mean: Number = float("nan")
    low: Number = float("nan")
    high: Number = float("nan")
    """Mean and ends of its 95 % interval."""
    n: int = 0
    """Images, or people, with a defined score."""
    undefined: int = 0
    """Images whose score is NaN."""
    higher_is_better: bool | None = None
    """None where nothing was measured."""
    against: tuple[PairedDifference, ...] = ()
    """The difference from each control."""
    advice: str = ""
    """What would settle an inconclusive verdict."""
    trust: Trust | None = None
    """In the metric; None for people and the literature."""
    summary: str = ""
    """What the metric's number means, in one sentence."""
    note: str = ""
    """A remark on the verdict, such as that rare failures could change it."""

    @property
    def weight(self) -> float:
        """Its weight in the grade of the attribute.

        It is 0 for literature, which is about other models, and for simulated people.
        """
        if self.source.kind in ("literature", "simulated people") or self.verdict == "not counted":
            return 0.0
        return self.trust.weight if self.trust else 1.0

    @property
    def own(self) -> bool:
        """Whether it was measured here, by metrics or with people, and not in a paper."""
        return self.source.kind != "literature"

    @property
    def by_people(self) -> bool:
        """Whether people judged, simulated ones included."""
        return self.source.kind in ("people", "simulated people")

    @property
    def noun(self) -> str:
        """What `n` counts."""
        return "people" if self.by_people else "images"

    @property
    def counted(self) -> str:
        """The number of images or people, in words."""
        return ("1 person" if self.n == 1 else f"{self.n} people") if self.by_people else numbers.count(self.n, "image")

    @property
    def arrow(self) -> str:
        """Which way is better."""
        return ARROWS[self.higher_is_better]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One attribute of methodology, measured."""

    attribute: Attribute
    word: str
    """The result in a word or two."""
    sentence: str
    share: Number
    """The grade of the attribute, from 0 to 1; NaN where it is not known."""
    numbers: Mapping[str, Loose] = field(default_factory=dict)
    """What was measured, by name, as JSON can hold it."""
    source: EvidenceSource | None = None


@dataclass(frozen=True, kw_only=True)
class Grade:
    """The grade of an attribute (see `grades`)."""

    attribute: Priority
    share: Number
    """From 0 to 1; NaN where it is not known."""
    word: str
    """good, mixed, poor or not known."""
    reason: str
    weight: Number
    """Sum of the weights of the tests that count."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """One method on one model and one set of images; without a run, only what holds for every model."""

    method: str
    """The label, settings included: `rise(masks=500)`."""
    name: str
    """The registered name."""
    control: bool
    prose: Prose
    claims: str
    """The traits of the method, in words."""
    needs: tuple[str, ...]
    """What the method needs beyond outputs."""
    evidence: tuple[Evidence, ...]
    findings: Mapping[Attribute, Finding]
    """The measured attributes of methodology."""
    grades: Mapping[Priority, Grade]
    """Of the ten attributes, and of `people` where a study was joined to the run."""
    source: EvidenceSource | None
    """The run; None for a card without a run."""

    def measured(self, attribute: Priority) -> tuple[Evidence, ...]:
        """Evidence from the run, and from people who saw the maps."""
        return tuple(evidence for evidence in self.evidence if evidence.attribute == attribute and evidence.own)

    def literature(self, attribute: Priority) -> tuple[Evidence, ...]:
        """Evidence from papers."""
        return tuple(evidence for evidence in self.evidence if evidence.attribute == attribute and not evidence.own)

    @property
    def seconds(self) -> float:
        """Seconds per map; NaN if not measured."""
        finding = self.findings.get("computational-efficiency")
        return float(finding.numbers.get("seconds", "nan")) if finding else float("nan")

    @property
    def disagreements(self) -> tuple[tuple[Evidence, Evidence], ...]:
        """Pairs (measured, literature) of the same test, one a pass and the other a fail."""
        written = [evidence for evidence in self.evidence if not evidence.own]
        return tuple(
            (evidence, other)
            for evidence in self.evidence
            if evidence.own
            for other in written
            if evidence.test == other.test and {evidence.verdict, other.verdict} == {"pass", "fail"}
        )

    def _repr_html_(self) -> str:
        """The card in brief, as a notebook shows it."""
        from snellen.cards.notebook import card_html

        return card_html(self)
