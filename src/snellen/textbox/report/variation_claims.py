"""The claims of Kim, Plumb and Talwalkar (2022) about other networks and backgrounds, and the rules that decide them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from snellen.papers.claims import Claim, ClaimResult, MissingError, RuleResult, joined_explanations
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.exam.variations import VariationResult
from snellen.textbox.report.bucket_means import (
    FEWEST_METHODS,
    BucketMeans,
    by_method,
    count_methods,
    named_numbers,
    paper_methods,
    two_digits,
)
from snellen.textbox.report.claims import MeansRule, changes, controls_change, with_published_reading

KINDS = {True: "simple", False: "complex"}
STATISTICS = {False: "on average", True: "in the worst bucket"}

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, kw_only=True)
class VariationMeans:
    """Mean scores of the plain networks on black and of the networks of a variation."""

    plain: BucketMeans
    varied: BucketMeans
    noise: BucketMeans | None = None
    """Of networks trained on noise, with which those trained on photographs are compared."""


VariationClaim = Claim[VariationMeans]


def decide_variation_claims(result: VariationResult) -> list[ClaimResult]:
    """Decides the paper's claims; those that do not hold are decided as the published code scores maps, too."""
    decided = _decide(result)
    if result.published is None:
        return decided
    published = _decide(result.published)
    return [
        with_published_reading(claim, other) if claim.holds is False else claim
        for claim, other in zip(decided, published, strict=True)
    ]


def _decide(result: VariationResult) -> list[ClaimResult]:
    settings = {setting for kind in result.frames for setting in result.settings_of(kind)}
    frames = {"plain": result.plain[result.plain["setting"].isin(settings)], **result.frames}
    means = {name: BucketMeans.of(frame, paper_methods(frame["method"].unique())) for name, frame in frames.items()}
    plain = means.pop("plain")
    return decide(result.variation.name, plain, means)


def decide(variation: str, plain: BucketMeans, varied: Mapping[str, BucketMeans]) -> list[ClaimResult]:
    """Decides the claims of a variation.

    Args:
        variation: Its name.
        plain: Means of the plain networks on black.
        varied: Means of the networks of the variation, by their kind.
    """
    if variation == "architecture":
        return [
            claim.decide(VariationMeans(plain=plain, varied=means))
            for name, means in varied.items()
            for claim in _falls("4.3, B.6", name)
        ]
    main = varied["photos"] if variation == "photos" else next(iter(varied.values()))
    data = VariationMeans(plain=plain, varied=main, noise=varied.get("noise") if variation == "photos" else None)
    return [claim.decide(data) for claim in CLAIMS[variation]]


def _robust_claims() -> list[VariationClaim]:
    """Section 4.3 and B.7: training against attacks helps gradients in simple settings, and no method in complex ones."""
    section = "4.3, B.7"
    return [
        *(
            Claim(
                section=section,
                sentence=f"gradient and SmoothGrad have a higher average {score.upper()} on robust networks "
                "in simple settings",
                rule=_higher(score, ("G", "SG")),
            )
            for score in ("pafl", "piou")
        ),
        *_falls(section, "robust networks"),
    ]


def _noise_claims() -> list[VariationClaim]:
    """Appendix B.8: noise behind the objects lowers the worst buckets, and complex settings stay worse than simple ones."""
    return [
        *_falls("B.8", "on noise", scores=("pafl",)),
        Claim(
            section="B.8",
            sentence="on noise, SAFL rises for most methods from simple settings to complex ones",
            rule=_of_varied(changes("safl", up=True, every=False)),
            explain=_of_varied(controls_change("safl")),
        ),
        *_lower("B.8", "noise lowers", (True,)),
    ]


def _photograph_claims() -> list[VariationClaim]:
    """Section 4.4 and B.9: photographs behind the objects lower all scores, and more than noise does."""
    section = "4.4, B.9"
    return [
        *_falls(section, "on photographs", scores=("pafl",)),
        *_lower(section, "photographs lower", (False, True)),
        *(
            Claim(
                section=section,
                sentence=f"on photographs no method has a PAFL above .5 {STATISTICS[worst]} in simple settings",
                rule=_below_bar(worst),
                explain=_on_no_object(simple=True),
            )
            for worst in (True, False)
        ),
        *(
            Claim(
                section=section,
                sentence=f"in {KINDS[simple]} settings photographs take more from the average PAFL than noise, "
                "as a mean over methods",
                rule=_takes_more(simple),
                explain=_edges(simple),
            )
            for simple in (True, False)
        ),
    ]


def _falls(section: str, networks: str, scores: Sequence[str] = ("pafl", "piou")) -> list[VariationClaim]:
    """Scores fall from simple settings to complex ones, on average and in the worst bucket (section 4.3 and B.6)."""
    return [
        Claim(
            section=section,
            sentence=f"{networks}: {score.upper()} {STATISTICS[worst]} falls for every method from simple settings to "
            "complex ones",
            rule=_of_varied(changes(score, worst=worst)),
            explain=joined_explanations(_by_plain_networks(changes(score, worst=worst)), _of_varied(controls_change(score))),
        )
        for score, worst in product(scores, (False, True))
    ]


def _lower(section: str, background: str, statistics: Sequence[bool]) -> list[VariationClaim]:
    """PAFL is lower than on black."""
    return [
        Claim(
            section=section,
            sentence=f"{background} the PAFL {STATISTICS[worst]} for every method in {KINDS[simple]} settings",
            rule=_lowered(worst, simple),
            explain=_on_no_object(simple),
        )
        for worst, simple in product(statistics, (True, False))
    ]


def _of_varied(function: Callable[[BucketMeans], Result]) -> Callable[[VariationMeans], Result]:
    """Applies a rule or an explanation to the networks of the variation."""
    return lambda data: function(data.varied)


def _by_plain_networks(rule: MeansRule) -> Callable[[VariationMeans], str]:
    """Whether plain networks follow the rule in the same settings and methods: a claim may fail because of these."""

    def explain(data: VariationMeans) -> str:
        names = shared_methods(data.plain, data.varied)
        rows = data.plain.rows
        rows = rows[rows["setting"].isin(data.varied.rows["setting"].unique()) & rows["method"].isin(names)]
        means = BucketMeans(rows=rows, methods=tuple(names), other_rows=data.plain.other_rows)
        result = Claim(sentence="", rule=rule).decide(means)
        word = "does not hold either" if result.holds is False else result.verdict
        return f"of the plain networks on black, in the same settings, it {word} ({result.numbers})"

    return explain


def shared_methods(*means: BucketMeans) -> list[str]:
    """The methods that all of these have, in the paper's order."""
    return [method for method in means[0].methods if all(method in other.methods for other in means)]


def _enough_methods(*means: BucketMeans) -> list[str]:
    names = shared_methods(*means)
    if len(names) < FEWEST_METHODS:
        raise MissingError(f"{len(names)} methods were run on both; at least {FEWEST_METHODS} are needed")
    return names


def _higher(score: str, names: Sequence[str]) -> Callable[[VariationMeans], RuleResult]:
    def rule(data: VariationMeans) -> RuleResult:
        for means in (data.plain, data.varied):
            means.require(*names)
        before, after = (means.average(score, simple=True) for means in (data.plain, data.varied))
        numbers = (f"{name} {two_digits(before[name])} plain, {two_digits(after[name])} robust" for name in names)
        return RuleResult(all(after[name] > before[name] for name in names), "; ".join(numbers))

    return rule


def _lowered(worst: bool, simple: bool) -> Callable[[VariationMeans], RuleResult]:
    def rule(data: VariationMeans) -> RuleResult:
        names = _enough_methods(data.plain, data.varied)
        before, after = (
            (means.worst if worst else means.average)("pafl", simple=simple)[names] for means in (data.plain, data.varied)
        )
        numbers = f"mean over methods {two_digits(before.mean())} to {two_digits(after.mean())}"
        return RuleResult(bool((after < before).all()), f"{count_methods(after < before, after - before)}; {numbers}")

    return rule


def _below_bar(worst: bool) -> Callable[[VariationMeans], RuleResult]:
    def rule(data: VariationMeans) -> RuleResult:
        means = data.varied
        scores = (means.worst if worst else means.average)("pafl", simple=True)[means.enough_methods]
        numbers = f"{count_methods(scores <= BAR, scores)}; the highest is {scores.idxmax()} {two_digits(scores.max())}"
        return RuleResult(bool((scores <= BAR).all()), numbers)

    return rule


def _takes_more(simple: bool) -> Callable[[VariationMeans], RuleResult]:
    def rule(data: VariationMeans) -> RuleResult:
        if data.noise is None:
            raise MissingError("no network was trained on noise; --variation noise trains some")
        backgrounds = (data.plain, data.noise, data.varied)
        names = _enough_methods(data.plain, data.varied, data.noise)
        black, noise, photographs = (means.average("pafl", simple=simple)[names].mean() for means in backgrounds)
        numbers = (
            f"{two_digits(black)} on black, {two_digits(noise)} on noise, {two_digits(photographs)} on photographs, "
            f"over {len(names)} methods"
        )
        return RuleResult(bool(photographs < noise), numbers)

    return rule


def _edges(simple: bool) -> Callable[[VariationMeans], str]:
    """What edge maps score on each background: the less, the more there is to see beside the objects."""

    def explain(data: VariationMeans) -> str:
        words = []
        for background, means in (("black", data.plain), ("noise", data.noise), ("photographs", data.varied)):
            if means is None:
                continue
            scores = means.other_averages("pafl", simple=simple, where=lambda label: label == "edge")
            words += [f"{two_digits(float(scores['edge']))} on {background}"] if len(scores) else []
        if not words:
            return ""
        return f"edges, which know the scene alone, score {', '.join(words)}; the lower, the more else there is to see"

    return explain


def _on_no_object(simple: bool) -> Callable[[VariationMeans], str]:
    """How much more of the maps lies on no object at all than on black."""

    def explain(data: VariationMeans) -> str:
        names = shared_methods(data.plain, data.varied)
        rests = []
        for means in (data.plain, data.varied):
            rows = means.contested(simple=simple)
            on, off = (by_method(rows, score, "mean", names) for score in ("pafl", "safl"))
            rests.append((1 - on - off).clip(lower=0))
        lost = rests[1] - rests[0]
        numbers = f"{two_digits(lost.mean())} on average ({named_numbers(lost)})"
        return f"the share of a map that lies neither where it should nor on what is to be avoided grows by {numbers}"

    return explain


CLAIMS: Mapping[str, Sequence[VariationClaim]] = {
    "robust": _robust_claims(),
    "noise": _noise_claims(),
    "photos": _photograph_claims(),
}
"""By variation; those of `architecture` are made for each architecture."""
