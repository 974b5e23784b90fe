"""The cards of all methods of a run, and the metrics that spoke for or against them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from snellen.cards import people
from snellen.cards.grades import grades
from snellen.cards.joined_runs import JoinedRuns
from snellen.cards.literature import literature_of
from snellen.cards.prose import prose_of
from snellen.cards.schema import ATTRIBUTES, Card, Directness, Evidence, EvidenceSource, Finding, Priority, Prose
from snellen.errors import SnellenError
from snellen.methods.controls import CONTROLS
from snellen.plugins.registry import METHODS, Attribute, traits
from snellen.plugins.traits import MethodTraits
from snellen.report.readable import Readable
from snellen.runs import Run
from snellen.runs.method_labels import find_label
from snellen.verdicts import Trust, trust

Findings = Mapping[str, Mapping[Attribute, Finding]]
"""By label of a method, what was measured of its methodology."""


@dataclass(frozen=True)
class CardSet:
    """One card per method of a run, controls included, in the order of the run."""

    run: Readable
    cards: tuple[Card, ...]
    trust: Mapping[str, Trust]
    notes: tuple[str, ...] = ()
    """What a reader should know of the runs, such as that one is unfinished."""

    @staticmethod
    def of(run: Readable, findings: Findings | None = None) -> CardSet:
        """The cards of a run; `findings` is what `methodology` measured, if it did."""
        refuse_unfit(run)
        spec = run.record.spec
        found = run.verdicts()
        believed = trust(run.scores(), spec.methods, spec.metrics, seed=spec.seed)
        believed |= {
            name: replace(believed[name], people=words) for name, words in people.opposed(run).items() if name in believed
        }
        metrics = {one.label: one for one in spec.metrics}
        source = source_of(run)
        measured: dict[str, list[Evidence]] = {}
        for judgement in found.judgements:
            metric = metrics[judgement.metric]
            measured.setdefault(judgement.method, []).append(
                Evidence(
                    metric.attribute,
                    metric.test or judgement.metric,
                    judgement.metric,
                    judgement.verdict,
                    judgement.reason,
                    source,
                    judgement.rule,
                    judgement.mean,
                    judgement.low,
                    judgement.high,
                    judgement.n,
                    judgement.undefined,
                    metric.higher_is_better,
                    judgement.against,
                    judgement.advice,
                    believed[judgement.metric],
                    metric.summary,
                    judgement.note,
                )
            )
        answered = people.evidence_of(run, source)
        asked = any(one.attribute == "people" for some in answered.values() for one in some)
        cards = []
        for method in spec.methods:
            label = method.label
            evidence = [*measured.get(label, ()), *answered.get(label, ())]
            cards.append(card(method.name, label, evidence, (findings or {}).get(label, {}), source, people=asked))
        return CardSet(run, tuple(cards), believed, people.notes(run))

    @property
    def methods(self) -> tuple[Card, ...]:
        """The cards of methods that are no controls."""
        return tuple(one for one in self.cards if not one.control)

    @property
    def studied(self) -> bool:
        """Whether people, and not only simulated ones, tried what they can do with the maps of some method."""
        every = (one for card in self.cards for one in card.evidence)
        return any(one.attribute == "people" and one.source.kind == "people" for one in every)

    @property
    def priorities(self) -> tuple[Priority, ...]:
        """What can be asked of its methods: the ten attributes, and use to people where that was studied."""
        return (*ATTRIBUTES, "people") if self.studied else ATTRIBUTES

    def find(self, name: str) -> Card:
        """The card of a method by its label or, where only one setting of it was run, by its name."""
        label = find_label(name, {one.method: one.name for one in self.cards}, f"'{self.run.folder}'")
        return next(one for one in self.cards if one.method == label)


def card(
    name: str,
    label: str,
    measured: Sequence[Evidence] = (),
    findings: Mapping[Attribute, Finding] | None = None,
    source: EvidenceSource | None = None,
    *,
    people: bool = False,
) -> Card:
    """The card of one method: prose, what papers found, and what was measured, if anything was.

    `people` says that a study was joined to the run, whether it showed this method or not.
    """
    facts, prose = _facts(name, label), prose_of(name)
    evidence = (*measured, *literature_of(name))
    known = {**(findings or {}), **_directness(prose)}
    needs = tuple(sorted(facts.needs))
    # Claims are shown with the default settings; another baseline may be drawn at random, another fold may lose the sum.
    claims = facts.in_words if label == name else f"{facts.in_words}, with its default settings"
    graded = grades(evidence, known, people=people)
    return Card(label, name, facts.control, prose, claims, needs, evidence, known, graded, source)


def _facts(name: str, label: str) -> MethodTraits:
    """What a method claims and needs with the settings in its label: smoothgrad(of=grad-cam) needs what grad-cam needs."""
    found: MethodTraits
    try:
        found = traits(METHODS.parse(label))
    except SnellenError:  # a run of an older version may have settings that are gone
        found = traits(METHODS[name])
    return found


_READING: Mapping[Directness, tuple[float, str]] = {
    "plain": (1.0, "Anyone can say what a bright place means; judged, not measured."),
    "trained": (0.5, "Reading it takes to know what a gradient, a layer or a mask is; judged, not measured."),
    "expert": (0.0, "Reading it takes to know the method's own rules; judged, not measured."),
}


def _directness(prose: Prose) -> dict[Attribute, Finding]:
    """Nothing where nobody judged it, as of a method of somebody's own package."""
    if prose.directness is None:
        return {}
    share, sentence = _READING[prose.directness]
    return {"semantic-directness": Finding("semantic-directness", prose.directness, sentence, share)}


def source_of(run: Readable) -> EvidenceSource:
    """A run as a source of evidence."""
    record, spec = run.record, run.record.spec
    classifier, samples = record.classifier, record.samples
    identity = f"{run.folder.name} {classifier.fingerprint[:8]}/{samples.digest[:8]}"
    count, images = str(samples.count), samples.source
    images = images if count in images.split() else f"{count} images: {images}"
    return EvidenceSource("run", identity, classifier.name, images, f"target {spec.target}, seed {spec.seed}")


def refuse_unfit(run: Readable) -> None:
    """Says so, before anything is measured, when a run has no controls to judge by or a method that is unknown here."""
    methods = run.record.spec.methods
    if not any(method.control for method in methods):
        raise SnellenError(
            f"'{run.folder}' has no controls, so nothing can be judged; add {','.join(CONTROLS)} to its --methods"
        )
    for method in methods:
        if method.name not in METHODS:
            raise SnellenError(
                f"'{run.folder}' has the method '{method.name}', which no installed package registers; install the one that "
                "does (entry point snellen.plugins), or import it in Python and make the cards there (see docs/cards.md)"
            )


def cards_of_runs(folders: Sequence[Path], measured: Callable[[Run], Findings] | None = None) -> CardSet:
    """The cards of run folders of one model and the same images, joined.

    `measured` says what is known of a run's methodology; what was measured before, unless told otherwise.
    """
    from snellen.cards.methodology import read  # it builds on this module

    if not folders:
        raise SnellenError("cards of your own model need --run RUN, a folder that `snellen run` or `snellen suite` wrote")
    several: dict[Path, Path] = {}
    for folder in folders:
        several.setdefault(Path(folder).resolve(), folder)
    runs = [Run(value) for value in several.values()]
    notes = tuple(
        f"'{one.folder.name}' is unfinished, so some scores are missing; "
        + (f"`snellen resume {one.folder}` finishes it" if one.record.request else "the same evaluate() finishes it")
        for one in runs
        if not one.complete
    )
    whole = JoinedRuns(runs) if len(runs) > 1 else runs[0]
    refuse_unfit(whole)
    findings: dict[str, Mapping[Attribute, Finding]] = {}
    for run in reversed(runs):
        findings |= (measured or read)(run)
    card_set = CardSet.of(whole, findings)
    return replace(card_set, notes=(*card_set.notes, *notes))
