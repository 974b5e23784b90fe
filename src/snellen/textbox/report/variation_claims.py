"""What Kim, Plumb and Talwalkar (2022) conclude about other networks and other backgrounds, asked of measured scores.

Each function takes the means of buckets of the plain networks on black, and those under other circumstances, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

import pandas as pd

from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.bucket_means import FEWEST, BucketMeans, MissingError, by_method, counted, listed, value
from snellen.textbox.report.questions import Ask, Claim, Question, answer, both, change, controls_move, looked_for

KINDS = {True: "simple", False: "complex"}
PLACES = {False: "on average", True: "in the worst bucket"}


def architecture_claims(plain: BucketMeans, others: Mapping[str, BucketMeans]) -> list[Claim]:
    """Section 4.3 and B.6: the fall from simple to complex settings is no matter of one architecture."""
    return [claim for name, tally in others.items() for claim in _falls("4.3, B.6", name, plain, tally)]


def robust_claims(plain: BucketMeans, others: Mapping[str, BucketMeans]) -> list[Claim]:
    """Section 4.3 and B.7: training against attacks helps gradients in simple settings, and nobody in complex ones."""
    section, (tally,) = "4.3, B.7", others.values()
    found = [
        _decided(
            section,
            f"gradient and SmoothGrad have a higher average {score.upper()} on robust networks in simple settings",
            partial(_higher, plain, tally, score, ("G", "SG")),
        )
        for score in ("pafl", "piou")
    ]
    return found + _falls(section, "robust networks", plain, tally)


def noise_claims(plain: BucketMeans, others: Mapping[str, BucketMeans]) -> list[Claim]:
    """Appendix B.8: noise behind the things lowers the worst buckets, and complex settings stay worse than simple ones."""
    (tally,) = others.values()
    found = _falls("B.8", "on noise", plain, tally, scores=("pafl",))
    rises = Question(
        "B.8", "on noise, SAFL rises for most methods from simple settings to complex ones",
        change("safl", up=True, every=False), controls_move("safl"),
    )  # fmt: skip
    return [*found, answer(rises, tally), *_lower("B.8", "noise lowers", plain, tally, (True,))]


def photographs_claims(plain: BucketMeans, others: Mapping[str, BucketMeans]) -> list[Claim]:
    """Section 4.4 and B.9: photographs behind the things lower everything, and more than noise does."""
    tally, noise = others["photos"], others.get("noise")
    section = "4.4, B.9"
    found = _falls(section, "on photographs", plain, tally, scores=("pafl",))
    found += _lower(section, "photographs lower", plain, tally, (False, True))
    found += [
        _decided(
            section,
            f"on photographs no method has a PAFL above .5 {PLACES[worst]} in simple settings",
            partial(_below_bar, tally, worst),
            partial(_where, plain, tally, True),
        )
        for worst in (True, False)
    ]
    found += [
        _decided(
            section,
            f"in {KINDS[simple]} settings photographs take more from the average PAFL than noise, as a mean over methods",
            partial(_takes_more, plain, tally, noise, simple),
            partial(_clutter, plain, tally, noise, simple),
        )
        for simple in (True, False)
    ]
    return found


Claims = Callable[[BucketMeans, Mapping[str, BucketMeans]], list[Claim]]


def _falls(
    section: str, who: str, plain: BucketMeans, tally: BucketMeans, scores: Sequence[str] = ("pafl", "piou")
) -> list[Claim]:
    """From simple settings to complex ones, on average and in the worst bucket."""
    return [
        answer(
            Question(
                section,
                f"{who}: {score.upper()} {PLACES[worst]} falls for every method from simple settings to complex ones",
                change(score, worst=worst),
                both(partial(_plainly, change(score, worst=worst), plain), controls_move(score)),
            ),
            tally,
        )
        for score, worst in product(scores, (False, True))
    ]


def _plainly(ask: Ask, plain: BucketMeans, tally: BucketMeans) -> str:
    """What the plain networks do in the same settings and by the same methods: a claim may fail with the settings chosen."""
    names = shared(plain, tally)
    rows = plain.buckets[
        plain.buckets["setting"].isin(tally.buckets["setting"].unique()) & plain.buckets["method"].isin(names)
    ]
    found = answer(Question("", "", ask), BucketMeans(rows, tuple(names), plain.others))
    word = "does not hold either" if found.holds is False else found.verdict
    return f"of the plain networks on black, in the same settings, it {word} ({found.numbers})"


def _lower(section: str, ground: str, plain: BucketMeans, tally: BucketMeans, places: Sequence[bool]) -> list[Claim]:
    """Than on black."""
    return [
        _decided(
            section,
            f"{ground} the PAFL {PLACES[worst]} for every method in {KINDS[simple]} settings",
            partial(_lowered, plain, tally, worst, simple),
            partial(_where, plain, tally, simple),
        )
        for worst, simple in product(places, (True, False))
    ]


def _decided(
    section: str, sentence: str, ask: Callable[[], tuple[bool, str]], why: Callable[[], str] | None = None
) -> Claim:
    try:
        holds, numbers = ask()
    except MissingError as missing:
        return Claim(section, sentence, None, str(missing))
    return Claim(section, sentence, holds, numbers, "" if holds or why is None else looked_for(why))


def shared(*tallies: BucketMeans) -> list[str]:
    """The methods that all of these know, in the paper's order."""
    return [method for method in tallies[0].methods if all(method in other.methods for other in tallies)]


def _higher(plain: BucketMeans, tally: BucketMeans, score: str, names: Sequence[str]) -> tuple[bool, str]:
    plain.some(*names), tally.some(*names)
    before, after = (one.average(score, simple=True) for one in (plain, tally))
    told = (f"{name} {value(before[name])} plain, {value(after[name])} robust" for name in names)
    return all(after[name] > before[name] for name in names), "; ".join(told)


def _lowered(plain: BucketMeans, tally: BucketMeans, worst: bool, simple: bool) -> tuple[bool, str]:
    names = _enough(shared(plain, tally))
    before, after = ((one.worst if worst else one.average)("pafl", simple=simple)[names] for one in (plain, tally))
    told = f"{counted(after < before, after - before)}; mean over methods {value(before.mean())} to {value(after.mean())}"
    return bool((after < before).all()), told


def _below_bar(tally: BucketMeans, worst: bool) -> tuple[bool, str]:
    found = (tally.worst if worst else tally.average)("pafl", simple=True)[tally.enough]
    told = f"{counted(found <= BAR, found)}; the highest is {found.idxmax()} {value(found.max())}"
    return bool((found <= BAR).all()), told


def _takes_more(plain: BucketMeans, photographs: BucketMeans, noise: BucketMeans | None, simple: bool) -> tuple[bool, str]:
    if noise is None:
        raise MissingError("no network was trained on noise; --study noise trains some")
    names = _enough(shared(plain, photographs, noise))
    black, seen, noisy = (one.average("pafl", simple=simple)[names].mean() for one in (plain, photographs, noise))
    told = f"{value(black)} on black, {value(noisy)} on noise, {value(seen)} on photographs, over {len(names)} methods"
    return bool(seen < noisy), told


def _clutter(plain: BucketMeans, photographs: BucketMeans, noise: BucketMeans | None, simple: bool) -> str:
    """What maps of the scenes alone score on each ground: the less, the more there is to see beside the things."""
    told = []
    for ground, one in (("black", plain), ("noise", noise), ("photographs", photographs)):
        found = (
            pd.Series(dtype=float) if one is None else one.beside("pafl", simple=simple, named=lambda label: label == "edge")
        )
        told += [f"{value(float(found['edge']))} on {ground}"] if len(found) else []
    return (
        f"edges, which know the scene alone, score {', '.join(told)}; the lower, the more else there is to see"
        if told
        else ""
    )


def _enough(names: list[str]) -> list[str]:
    if len(names) < FEWEST:
        raise MissingError(f"{len(names)} methods were run on both; at least {FEWEST} are needed")
    return names


def _where(plain: BucketMeans, tally: BucketMeans, simple: bool) -> str:
    """How much of the maps lies on no thing at all, here and on black."""
    names = shared(plain, tally)
    rest = []
    for one in (plain, tally):
        rows = one.contested(simple=simple)
        on, off = (by_method(rows, score, "mean", names) for score in ("pafl", "safl"))
        rest.append((1 - on - off).clip(lower=0))
    lost = rest[1] - rest[0]
    told = f"{value(lost.mean())} on average ({listed(lost)})"
    return f"the share of a map that lies neither where it should nor on what is to be avoided grows by {told}"
