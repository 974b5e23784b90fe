"""The cards of all methods of a run, and how far each of its metrics is trusted."""

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
from snellen.files.folder import folder_at
from snellen.files.remote import is_url
from snellen.methods.controls import CONTROLS
from snellen.plugins.outside import is_unstated, needs_in_words
from snellen.plugins.registry import METHODS, Attribute, traits
from snellen.plugins.traits import MethodTraits
from snellen.report.readable import Readable
from snellen.runs import Run
from snellen.runs.foreign_code import load_plugins_of_run
from snellen.runs.method_labels import find_label
from snellen.runs.store import Store
from snellen.verdicts import Trust, trust

MethodFindings = Mapping[str, Mapping[Attribute, Finding]]
"""By label of a method, its measured attributes of methodology."""


@dataclass(frozen=True, kw_only=True)
class CardSet:
    """One card per method of a run, controls included, in the order of the run."""

    run: Readable
    cards: tuple[Card, ...]
    trust: Mapping[str, Trust]
    """By label of the metric."""
    notes: tuple[str, ...] = ()
    """Warnings about the runs, such as that one is unfinished."""

    @staticmethod
    def of(run: Readable, findings: MethodFindings | None = None) -> CardSet:
        """The cards of a run.

        Args:
            run: The run.
            findings: The results of `methodology`, where it was measured.

        """
        refuse_unfit(run)
        spec = run.record.spec
        verdicts = run.verdicts()
        trusts = trust(run.scores(), spec.methods, spec.metrics, seed=spec.seed)
        trusts |= {
            name: replace(trusts[name], people=words) for name, words in people.opposed(run).items() if name in trusts
        }
        metrics = {metric.label: metric for metric in spec.metrics}
        source = source_of(run)
        measured: dict[str, list[Evidence]] = {}
        for judgement in verdicts.judgements:
            metric = metrics[judgement.metric]
            measured.setdefault(judgement.method, []).append(
                Evidence(
                    attribute=metric.attribute,
                    test=metric.test or judgement.metric,
                    metric=judgement.metric,
                    verdict=judgement.verdict,
                    reason=judgement.reason,
                    source=source,
                    rule=judgement.rule,
                    mean=judgement.mean,
                    low=judgement.low,
                    high=judgement.high,
                    n=judgement.n,
                    undefined=judgement.undefined,
                    higher_is_better=metric.higher_is_better,
                    against=judgement.against,
                    advice=judgement.advice,
                    trust=trusts[judgement.metric],
                    summary=metric.summary,
                    note=judgement.note,
                )
            )
        study_evidence = people.evidence_of(run, source)
        has_study = any(evidence.attribute == "people" for tests in study_evidence.values() for evidence in tests)
        cards = []
        for method in spec.methods:
            label = method.label
            evidence = [*measured.get(label, ()), *study_evidence.get(label, ())]
            cards.append(card(method.name, label, evidence, (findings or {}).get(label, {}), source, people=has_study))
        return CardSet(run=run, cards=tuple(cards), trust=trusts, notes=people.notes(run))

    @property
    def methods(self) -> tuple[Card, ...]:
        """The cards of all methods except controls."""
        return tuple(card for card in self.cards if not card.control)

    @property
    def studied(self) -> bool:
        """Whether real people, not only simulated ones, did tasks with the maps of some method."""
        every = (evidence for card in self.cards for evidence in card.evidence)
        return any(evidence.attribute == "people" and evidence.source.kind == "people" for evidence in every)

    @property
    def priorities(self) -> tuple[Priority, ...]:
        """What a user can rank methods by: the ten attributes, and use to people if that was studied."""
        return (*ATTRIBUTES, "people") if self.studied else ATTRIBUTES

    def find(self, name: str) -> Card:
        """The card of a method by its label or, if the run has it with one setting only, by its name."""
        positive = [control.label for control in self.run.record.spec.positive_controls]
        label = find_label(name, {card.method: card.name for card in self.cards}, f"'{self.run.folder}'", positive)
        return next(card for card in self.cards if card.method == label)


def card(
    name: str,
    label: str,
    measured: Sequence[Evidence] = (),
    findings: Mapping[Attribute, Finding] | None = None,
    source: EvidenceSource | None = None,
    *,
    people: bool = False,
) -> Card:
    """The card of one method: its prose, the verdicts of papers, and what was measured.

    Args:
        name: The registered name.
        label: The name with its settings.
        measured: Evidence from a run, and from people.
        findings: The measured attributes of methodology.
        source: The run; None without one.
        people: Whether a study was joined to the run, also if this method was not in it.

    """
    facts, prose = _facts(name, label), prose_of(name)
    evidence = (*measured, *literature_of(name))
    all_findings = {**(findings or {}), **_directness(prose)}
    needs = needs_in_words(facts)
    # Traits are tested with default settings only: another baseline may be random, another fold may break completeness.
    stated = "none" if is_unstated(facts) else facts.in_words
    claims = stated if label == name else f"{stated}, with its default settings"
    graded = grades(evidence, all_findings, people=people)
    return Card(
        method=label,
        name=name,
        control=facts.control,
        prose=prose,
        claims=claims,
        needs=needs,
        evidence=evidence,
        findings=all_findings,
        grades=graded,
        source=source,
    )


def _facts(name: str, label: str) -> MethodTraits:
    """The traits of a method with the settings in its label: smoothgrad(of=grad-cam) needs what grad-cam needs."""
    facts: MethodTraits
    try:
        facts = traits(METHODS.parse(label))
    except SnellenError:  # a run of an older version may have settings that no longer exist
        facts = traits(METHODS[name])
    return facts


_READING: Mapping[Directness, tuple[float, str]] = {
    "plain": (1.0, "Anyone can say what a bright region means; judged, not measured."),
    "trained": (0.5, "A reader must know what a gradient, a layer or a mask is; judged, not measured."),
    "expert": (0.0, "A reader must know the method's own rules; judged, not measured."),
}


def _directness(prose: Prose) -> dict[Attribute, Finding]:
    """The finding on semantic directness, from the prose; empty for methods of other packages, which have no prose."""
    if prose.directness is None:
        return {}
    share, sentence = _READING[prose.directness]
    return {
        "semantic-directness": Finding(
            attribute="semantic-directness", word=prose.directness, sentence=sentence, share=share
        )
    }


def source_of(run: Readable) -> EvidenceSource:
    """A run as a source of evidence."""
    record, spec = run.record, run.record.spec
    classifier, samples = record.classifier, record.samples
    identity = f"{folder_at(run.folder).name} {classifier.fingerprint[:8]}/{samples.digest[:8]}"
    count, images = str(samples.count), samples.source
    images = images if count in images.split() else f"{count} images: {images}"
    settings = f"target {spec.target}, seed {spec.seed}"
    if spec.stops_early:
        rules = {"until": spec.until, "budget": spec.budget}
        settings += "".join(f", {name} {value}" for name, value in rules.items() if value)
    return EvidenceSource(kind="run", name=identity, model=classifier.name, data=images, settings=settings)


def refuse_unfit(run: Readable) -> None:
    """Refuses a run that has no controls, or a method that is not registered, before anything is measured."""
    methods = run.record.spec.methods
    if not any(method.control for method in methods):
        raise SnellenError(
            f"'{run.folder}' has no controls, so nothing can be judged; add {','.join(CONTROLS)} to its --methods"
        )
    for method in methods:
        if method.maps is not None:
            raise SnellenError(
                f"'{run.folder}' has the maps '{method.label}', which were made elsewhere: a card describes a "
                "method, and theirs is unknown; make the run without --maps, in another --out, and cards of that"
            )
        if method.name not in METHODS:
            raise SnellenError(
                f"'{run.folder}' has the method '{method.name}', which no installed package registers; install the one that "
                "does (entry point snellen.plugins), or import it in Python and make the cards there (see docs/cards.md)"
            )


def cards_of_runs(
    folders: Sequence[str | Path], measured: Callable[[Run], MethodFindings] | None = None, *, trust: bool = False
) -> CardSet:
    """The cards of run folders of one model and the same images, joined.

    Args:
        folders: The run folders.
        measured: Returns the findings on a run's methodology; by default it reads those that were measured before.
        trust: Whether to execute methods from a file or module that somebody else's run names.
    """
    from snellen.cards.methodology import read  # it imports this module

    if not folders:
        raise SnellenError("cards of your own model need --run RUN, a folder that `snellen run` or `snellen suite` wrote")
    unique: dict[object, str | Path] = {}
    for folder in folders:
        unique.setdefault(folder if is_url(folder) else Path(folder).resolve(), folder)
    runs = [Run(folder) for folder in unique.values()]
    for run in runs:
        load_plugins_of_run(Store(run.folder), run.record, trust=trust)
    notes = tuple(
        f"'{folder_at(run.folder).name}' is unfinished, so some scores are missing; "
        + (f"`snellen resume {run.folder}` finishes it" if run.record.request else "the same evaluate() finishes it")
        for run in runs
        if not run.complete
    )
    joined = JoinedRuns(runs) if len(runs) > 1 else runs[0]
    refuse_unfit(joined)
    findings: dict[str, Mapping[Attribute, Finding]] = {}
    for run in reversed(runs):
        findings |= (measured or read)(run)
    card_set = CardSet.of(joined, findings)
    return replace(card_set, notes=(*card_set.notes, *notes))
