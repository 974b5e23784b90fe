"""The claims of Kim, Plumb and Talwalkar (2022), sections 4.1 and 4.2, and the rules that decide them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from snellen.papers.claims import Claim, ClaimResult, MissingError, RuleResult, joined_explanations
from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.bucket_means import (
    BucketMeans,
    by_method,
    count_methods,
    is_control,
    is_majority,
    named_numbers,
    own_methods,
    paper_methods,
    two_digits,
)

MeansRule = Callable[[BucketMeans], RuleResult]
MeansExplanation = Callable[[BucketMeans], str]

FAR = 0.1
"""How much counts as far below, and as near the bar."""

WEAK = ("G", "SG", "DCN", "GBP")
LRP = ("LRP-Z", "LRP-E", "LRP-Ab", "LRP-Bb")
DEEPLIFT = ("DL-RC", "DL-R")
SIMPLE = ("simple-fr", "simple-nr")


def decide_claims(frame: pd.DataFrame, published: pd.DataFrame | None = None) -> list[ClaimResult]:
    """Decides the claims of sections 4.1 and 4.2: for the paper's methods, then, where sensible, for all that were run.

    Args:
        frame: Scores in the paper's reading.
        published: The same in the reading of the published code. A claim that does not hold is decided from it as well,
            because that code blurs maps and lifts zeros, which may be why the paper's numbers are what they are.
    """
    labels = list(frame["method"].unique())
    own, every = paper_methods(labels), own_methods(labels)
    groups = [("paper", own, CLAIMS)]
    if set(every.values()) != set(own.values()):
        groups.append(("all", every, tuple(claim for claim in CLAIMS if claim.any_methods)))
    results = []
    for among, names, claims in groups:
        means = BucketMeans.of(frame, names)
        other = None if published is None else BucketMeans.of(published, names)
        for claim in claims:
            result = claim.decide(means, among=among)
            if result.holds is False and other is not None:
                result = with_published_reading(result, claim.decide(other))
            results.append(result)
    return results


def with_published_reading(result: ClaimResult, published: ClaimResult) -> ClaimResult:
    """Adds to a claim that does not hold whether it holds where maps are scored as the published code does."""
    word = "does not hold either" if published.holds is False else published.verdict
    sentence = f"scored as the published code does, it {word} ({published.numbers})"
    return replace(result, reason="; ".join(filter(None, (result.reason, sentence))))


# Averages ------------------------------------------------------------------------------------------------------------------


def _most_average(*, simple: bool, above: bool) -> MeansRule:
    """Most methods average above the bar, or below it."""

    def rule(means: BucketMeans) -> RuleResult:
        averages = means.average("pafl", simple=simple)[means.enough_methods]
        true = averages > BAR if above else averages < BAR
        numbers = f"{count_methods(true, averages)}; mean over methods {two_digits(averages.mean())}"
        return RuleResult(is_majority(true), numbers)

    return rule


def _each(names: Sequence[str], *, simple: bool, above: bool) -> MeansRule:
    """Each of these methods averages above the bar, or at most at it."""

    def rule(means: BucketMeans) -> RuleResult:
        averages = means.average("pafl", simple=simple)[means.require(*names)]
        return RuleResult(bool((averages > BAR).all() if above else (averages <= BAR).all()), named_numbers(averages))

    return rule


def _elsewhere(names: Sequence[str], *, simple: bool) -> MeansExplanation:
    """Where the values of the maps lie that do not lie where they should."""

    def explain(means: BucketMeans) -> str:
        rows = means.contested(simple=simple)
        on, off = (by_method(rows, score, "mean", names) for score in ("pafl", "safl"))
        rest = (1 - on - off).clip(lower=0)
        return (
            f"of their values there lie on objects to be avoided: {named_numbers(off)}; "
            f"and on neither: {named_numbers(rest)}"
        )

    return explain


def _by_setting(score: str) -> MeansExplanation:
    """The mean of each setting, because a mean over few settings may hide that they differ."""

    def explain(means: BucketMeans) -> str:
        by_pair = means.rows.groupby(["setting", "method"], sort=False)[score].mean()
        averages = by_pair.groupby("setting", sort=False).mean()
        return f"mean {score.upper()} over methods, by setting: {named_numbers(averages)}"

    return explain


def _weak_in_simple(means: BucketMeans) -> str:
    """Where the values of the four weak methods lie, and the score of SmoothGrad without the published squares."""
    words = _elsewhere(WEAK, simple=True)(means)
    plain = means.other_averages("pafl", simple=True, where=lambda label: plain_name(label) == "smoothgrad")
    return words if plain.empty else f"{words}; gradients averaged without being squared: {named_numbers(plain)}"


def _avoids(means: BucketMeans) -> RuleResult:
    on, off = (means.average(score, simple=True)[means.enough_methods] for score in ("pafl", "safl"))
    numbers = f"means over methods {two_digits(on.mean())} PAFL and {two_digits(off.mean())} SAFL"
    return RuleResult(is_majority(off < on), f"{count_methods(off < on)}; {numbers}")


def _near_bar(means: BucketMeans) -> RuleResult:
    averages = means.average("pafl", simple=False)[means.require("IG", *LRP, *DEEPLIFT)]
    return RuleResult(bool(((averages - BAR).abs() <= FAR).all()), named_numbers(averages))


# From simple to complex ----------------------------------------------------------------------------------------------------


def changes(score: str, *, up: bool = False, worst: bool = False, every: bool = True) -> MeansRule:
    """A score falls, or rises, from simple settings to complex ones, for every method or for most."""

    def rule(means: BucketMeans) -> RuleResult:
        statistic = means.worst if worst else means.average
        before, after = (statistic(score, simple=simple)[means.enough_methods] for simple in (True, False))
        true = after > before if up else after < before
        numbers = f"mean over methods {two_digits(before.mean())} to {two_digits(after.mean())}"
        return RuleResult(
            bool(true.all()) if every else is_majority(true), f"{count_methods(true, after - before)}; {numbers}"
        )

    return rule


def controls_change(score: str) -> MeansExplanation:
    """The scores of controls, which change only because scenes and truths differ."""

    def explain(means: BucketMeans) -> str:
        before, after = (means.other_averages(score, simple=simple, where=is_control) for simple in (True, False))
        pairs = [
            f"{label} {two_digits(before[label])} to {two_digits(after[label])}"
            for label in before.index
            if label in after.index
        ]
        if not pairs:
            return "no control was run"
        return f"controls, which know nothing of the network, go from simple settings to complex ones {', '.join(pairs)}"

    return explain


def _bigger_drops(means: BucketMeans) -> RuleResult:
    strong, others = means.require("IG", *LRP, *DEEPLIFT), means.require("G-CAM", "D-SHAP")
    drop = means.average("pafl", simple=True) - means.average("pafl", simple=False)
    usual = drop[strong].mean()
    numbers = f"drops of {named_numbers(drop, others)}; of the others {two_digits(usual)}"
    return RuleResult(bool((drop[others] > usual).all()), numbers)


def _far_below(means: BucketMeans) -> RuleResult:
    words, true = [], []
    for simple in (True, False):
        average, worst = (
            statistic("pafl", simple=simple)[means.enough_methods] for statistic in (means.average, means.worst)
        )
        true.append(is_majority(average - worst > FAR))
        numbers = f"{two_digits(average.mean())} on average and {two_digits(worst.mean())} at worst"
        kind = "simple" if simple else "complex"
        words.append(f"{kind}: {numbers}, far below for {count_methods(average - worst > FAR)}")
    return RuleResult(all(true), "; ".join(words))


def _wider(means: BucketMeans) -> RuleResult:
    before, after = (means.deviation("pafl", simple=simple)[means.enough_methods] for simple in (True, False))
    numbers = f"standard deviations of {two_digits(before.mean())} and {two_digits(after.mean())}, means over methods"
    return RuleResult(is_majority(after > before), f"{count_methods(after > before)}; {numbers}")


# How many objects show -----------------------------------------------------------------------------------------------------


def _by_visible(means: BucketMeans, score: str) -> pd.DataFrame:
    """Methods by numbers of visible objects, over the buckets of simple settings with something to focus on."""
    rows = means.select(simple=True).dropna(subset=["pafl", score])
    table = rows.groupby(["method", "visible"], sort=False)[score].mean().unstack("visible").sort_index(axis=1)
    if table.shape[1] < 2:
        raise MissingError("all scenes show the same number of objects")
    return table.reindex(means.enough_methods)


def _more_objects(means: BucketMeans) -> RuleResult:
    words, true = [], []
    for score, sign in (("pafl", -1), ("safl", 1)):
        averages = _by_visible(means, score).mean()
        true.append(bool((sign * averages.diff().iloc[1:] > 0).all()))
        steps = ", ".join(f"{two_digits(average)} with {visible}" for visible, average in averages.items())
        words.append(f"{score.upper()} {steps}")
    return RuleResult(all(true), "; ".join(words))


def _more_objects_each(means: BucketMeans) -> RuleResult:
    words, true = [], []
    for score, word, sign in (("pafl", "falls", -1), ("safl", "rises", 1)):
        steps = (sign * _by_visible(means, score).diff(axis=1).iloc[:, 1:] > 0).all(axis=1)
        true.append(bool(steps.all()))
        words.append(f"{score.upper()} {word} for {count_methods(steps)}")
    return RuleResult(all(true), "; ".join(words))


def _distracted(means: BucketMeans) -> RuleResult:
    words, true = [], []
    for setting, name, without in (("simple-fr", "text", (7, 10)), ("simple-nr", "box1", (2, 3, 5, 6))):
        rows = means.select(setting=setting)
        is_absent = rows["bucket"].isin(without)
        present, absent = (
            by_method(some, "pafl", "mean", means.enough_methods) for some in (rows[~is_absent], rows[is_absent])
        )
        true.append(bool((present < absent).all()))
        numbers = f"{two_digits(present.mean())} with {name}, {two_digits(absent.mean())} without"
        words.append(f"{setting}: {numbers}, lower for {count_methods(present < absent, present - absent)}")
    return RuleResult(all(true), "; ".join(words))


# Successes and failures ----------------------------------------------------------------------------------------------------


def _weak_never_succeed(means: BucketMeans) -> RuleResult:
    weak = means.require(*WEAK)
    numbers = f"shares of buckets: {named_numbers(means.shares('success', simple=True)[weak].mean())}"
    return RuleResult(not means.succeeds(simple=True)[weak].to_numpy().any(), numbers)


def _succeeds(name: str, *settings: str) -> MeansRule:
    """A method succeeds in all contested buckets of these settings."""

    def rule(means: BucketMeans) -> RuleResult:
        rows = means.contested(settings=settings)
        rows = rows[rows["method"].isin(means.require(name))]
        numbers = f"{int(rows['success'].sum())} of {len(rows)} buckets, the lowest at {two_digits(rows['pafl'].min())}"
        return RuleResult(bool(rows["success"].all()), numbers)

    return rule


def _missed(name: str, *settings: str) -> MeansExplanation:
    """The buckets in which a method does not succeed."""

    def explain(means: BucketMeans) -> str:
        rows = means.contested(settings=settings)
        rows = rows[(rows["method"] == name) & ~rows["success"]]
        buckets = [
            f"{row['setting']} {row['bucket']} ({two_digits(row['pafl'])} of the map where it should be, "
            f"{two_digits(row['safl'])} on what is to be avoided)"
            for row in rows.to_dict("records")
        ]
        return f"missed: {', '.join(buckets)}"

    return explain


def _only_rescale(means: BucketMeans) -> RuleResult:
    succeeds = means.succeeds(simple=True, settings=SIMPLE).all()
    others = [str(method) for method in succeeds.index[succeeds] if method != "DL-R"]
    return RuleResult(not others, f"of {len(means.methods)} methods: {', '.join(others) or 'none'}")


def _more_successes(means: BucketMeans) -> RuleResult:
    inside = means.require("I*G", "IG", *LRP, *DEEPLIFT)
    outside = [method for method in means.methods if method not in inside]
    if not outside:
        raise MissingError("no other method was run")
    shares = means.shares("success", simple=True).mean()
    ours, theirs = shares[inside].mean(), shares[outside].mean()
    numbers = f"{two_digits(ours)} of the buckets; the others {two_digits(theirs)} ({named_numbers(shares, outside)})"
    return RuleResult(bool(ours > theirs), numbers)


def _single_success(means: BucketMeans) -> RuleResult:
    succeeds = means.succeeds(simple=False)
    pairs = [(str(method), str(setting)) for method in succeeds for setting in succeeds.index[succeeds[method]]]
    others = [f"{method} on {setting}" for method, setting in pairs if (method, setting) != ("LRP-E", "complex-fr")]
    return RuleResult(not others, f"of {succeeds.size} pairs of a method and a setting: {', '.join(others) or 'none'}")


def _none_everywhere(means: BucketMeans) -> RuleResult:
    succeeds = means.succeeds(simple=False)
    if len(succeeds) < 2:
        raise MissingError("at least two complex settings are needed")
    names = [str(method) for method in succeeds if bool(succeeds[method].all())]
    shares = means.shares("success", simple=False).mean()
    highest = f"the most is {two_digits(shares.max())} of the buckets, by {shares.idxmax()}"
    return RuleResult(not names, f"{', '.join(names) or 'none'}; {highest}")


def _wrong_focus(means: BucketMeans) -> RuleResult:
    in_simple, in_complex = (
        float((means.shares("failure", simple=simple) > 0.5).to_numpy().mean()) for simple in (True, False)
    )
    numbers = (
        f"so for {two_digits(in_complex)} of the pairs of a method and a complex setting, "
        f"{two_digits(in_simple)} of those with a simple one"
    )
    return RuleResult(in_complex > 0.5 > in_simple, numbers)


def _cr2(means: BucketMeans) -> RuleResult:
    rows = means.select(setting="complex-cr2")
    parts = {"only box2": (5, 6), "only box1": (7, 8, 9), "both boxes": (10, 11, 12)}
    averages = {
        part: by_method(rows[rows["bucket"].isin(buckets)], "pafl", "mean", means.enough_methods)
        for part, buckets in parts.items()
    }
    numbers = (
        f"{part}: mean {two_digits(values.mean())}, above .5 for {count_methods(values > BAR)}"
        for part, values in averages.items()
    )
    fails = all(bool((averages[part] <= BAR).all()) for part in ("only box1", "both boxes"))
    return RuleResult(is_majority(averages["only box2"] > BAR) and fails, "; ".join(numbers))


CLAIMS: tuple[Claim[BucketMeans], ...] = (
    Claim(
        sentence="in simple settings most methods (more than half) average a PAFL above .5",
        section="4.1", rule=_most_average(simple=True, above=True), explain=_by_setting("pafl"), any_methods=True,
    ),
    Claim(
        sentence="in simple settings most methods average a SAFL below their PAFL",
        section="4.1", rule=_avoids, explain=_by_setting("safl"), any_methods=True,
    ),
    Claim(
        sentence="gradient, SmoothGrad, DeconvNet and guided backpropagation are weak in simple settings: each "
        "averages at most .5",
        section="4.1", rule=_each(WEAK, simple=True, above=False), explain=_weak_in_simple,
    ),
    Claim(
        sentence="none of these four succeeds in all buckets of a simple setting",
        section="4.1", rule=_weak_never_succeed, explain=_weak_in_simple,
    ),
    Claim(
        sentence="DeepLIFT with the rescale rule and all four LRP are strong in simple settings: each averages above .5",
        section="4.1", rule=_each(("DL-R", *LRP), simple=True, above=True), explain=_elsewhere(("DL-R", *LRP), simple=True),
    ),
    Claim(
        sentence="DeepLIFT with the rescale rule succeeds in all buckets of both simple settings",
        section="4.1", rule=_succeeds("DL-R", *SIMPLE), explain=_missed("DL-R", *SIMPLE),
    ),
    Claim(
        sentence="no other method succeeds in all buckets of both simple settings",
        section="4.1", rule=_only_rescale,
    ),
    Claim(
        sentence="input × gradient, IG, LRP and DeepLIFT succeed in more buckets of simple settings than the others "
        "do on average",
        section="4.1", rule=_more_successes,
    ),
    Claim(
        sentence="the more objects show, the lower PAFL and the higher SAFL in simple settings, step by step, as "
        "means over methods",
        section="4.1", rule=_more_objects, any_methods=True,
    ),
    Claim(
        sentence="the more objects show, the lower PAFL and the higher SAFL in simple settings, step by step, for "
        "every method",
        section="4.1", rule=_more_objects_each,
    ),
    Claim(
        sentence="every method has a lower PAFL where an object to be avoided shows: text in simple-fr, box1 in simple-nr",
        section="4.1", rule=_distracted, any_methods=True,
    ),
    Claim(
        sentence="the worst bucket is far (more than .1) below the average for most methods, in simple settings and "
        "in complex ones",
        section="4.1, 4.2", rule=_far_below, any_methods=True,
    ),
    Claim(
        sentence="in complex settings most methods average a PAFL below .5",
        section="4.2", rule=_most_average(simple=False, above=False), explain=_by_setting("pafl"), any_methods=True,
    ),
    Claim(
        sentence="PAFL falls for every method from simple settings to complex ones",
        section="4.2", rule=changes("pafl"),
        explain=joined_explanations(_by_setting("pafl"), controls_change("pafl")), any_methods=True,
    ),
    Claim(
        sentence="SAFL rises for most methods from simple settings to complex ones",
        section="4.2", rule=changes("safl", up=True, every=False),
        explain=joined_explanations(_by_setting("safl"), controls_change("safl")), any_methods=True,
    ),
    Claim(
        sentence="IG, LRP and DeepLIFT are near the bar in complex settings: each averages within .1 of .5",
        section="4.2", rule=_near_bar, explain=_by_setting("pafl"),
    ),
    Claim(
        sentence="Grad-CAM and DeepSHAP each fall by more than IG, LRP and DeepLIFT do on average",
        section="4.2", rule=_bigger_drops,
    ),
    Claim(
        sentence="gradient, SmoothGrad, DeconvNet and guided backpropagation stay weak in complex settings: each "
        "averages at most .5",
        section="4.2", rule=_each(WEAK, simple=False, above=False), explain=_elsewhere(WEAK, simple=False),
    ),
    Claim(
        sentence="LRP-ε succeeds in all buckets of complex-fr",
        section="4.2", rule=_succeeds("LRP-E", "complex-fr"), explain=_missed("LRP-E", "complex-fr"),
    ),
    Claim(
        sentence="beside LRP-ε on complex-fr, no method succeeds in all buckets of a complex setting",
        section="4.2", rule=_single_success, explain=_by_setting("pafl"),
    ),
    Claim(
        sentence="no method succeeds in all buckets of all complex settings",
        section="4.2", rule=_none_everywhere, any_methods=True,
    ),
    Claim(
        sentence="wrong focus (SAFL above PAFL in more than half of the buckets) is usual in complex settings and not "
        "in simple ones",
        section="4.2", rule=_wrong_focus, explain=_by_setting("safl"), any_methods=True,
    ),
    Claim(
        sentence="every method has a lower PAFL in its worst bucket of complex settings than in that of simple ones",
        section="4.2", rule=changes("pafl", worst=True), explain=controls_change("pafl"), any_methods=True,
    ),
    Claim(
        sentence="PAFL differs more from bucket to bucket in complex settings, for most methods",
        section="4.2", rule=_wider, any_methods=True,
    ),
    Claim(
        sentence="in complex-cr2 most methods average above .5 where only box2 shows beside the text, and none does "
        "where box1 shows",
        section="4.2", rule=_cr2, explain=_by_setting("pafl"),
    ),
)  # fmt: skip
"""In the order of the paper."""
