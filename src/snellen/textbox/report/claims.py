"""What Kim, Plumb and Talwalkar (2022) conclude in sections 4.1 and 4.2, asked of measured scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.bucket_means import (
    BucketMeans,
    MissingError,
    by_method,
    counted,
    listed,
    most,
    own_methods,
    paper_methods,
    value,
)
from snellen.textbox.report.questions import Ask, Claim, Question, Why, answer, both, change, controls_move

FAR = 0.1
"""How much counts as far below, and as near the bar."""

WEAK = ("G", "SG", "DCN", "GBP")
LRP = ("LRP-Z", "LRP-E", "LRP-Ab", "LRP-Bb")
DEEPLIFT = ("DL-RC", "DL-R")
SIMPLE = ("simple-fr", "simple-nr")


def claims(frame: pd.DataFrame, published: pd.DataFrame | None = None) -> list[Claim]:
    """The claims of sections 4.1 and 4.2: of the paper's methods first, then, where sensible, of all that were run.

    `published` is the same frame in the reading of the published code. A claim that does not hold is asked of it as well,
    because that pipeline blurs maps and lifts zeros, which may be why the paper's numbers are what they are.
    """
    labels = list(frame["method"].unique())
    own, every = paper_methods(labels), own_methods(labels)
    found = _answers(QUESTIONS, frame, published, own, "paper")
    if set(every.values()) != set(own.values()):
        found += _answers([one for one in QUESTIONS if one.general], frame, published, every, "all")
    return found


def _answers(
    questions: Sequence[Question],
    frame: pd.DataFrame,
    published: pd.DataFrame | None,
    names: Mapping[str, str],
    among: str,
) -> list[Claim]:
    tally = BucketMeans.of(frame, names)
    other = None if published is None else BucketMeans.of(published, names)
    return [answer(question, tally, published=other, among=among) for question in questions]


# Averages ------------------------------------------------------------------------------------------------------------------


def _average_above(tally: BucketMeans) -> tuple[bool, str]:
    found = tally.average("pafl", simple=True)[tally.enough]
    return most(found > BAR), f"{counted(found > BAR, found)}; mean over methods {value(found.mean())}"


def _average_below(tally: BucketMeans) -> tuple[bool, str]:
    found = tally.average("pafl", simple=False)[tally.enough]
    return most(found < BAR), f"{counted(found < BAR, found)}; mean over methods {value(found.mean())}"


def _each(names: Sequence[str], *, simple: bool, above: bool) -> Ask:
    def ask(tally: BucketMeans) -> tuple[bool, str]:
        found = tally.average("pafl", simple=simple)[tally.some(*names)]
        return bool((found > BAR).all() if above else (found <= BAR).all()), listed(found)

    return ask


def _elsewhere(names: Sequence[str], *, simple: bool) -> Why:
    """Where the values lie that do not lie where they should."""

    def why(tally: BucketMeans) -> str:
        rows = tally.contested(simple=simple)
        on, off = (by_method(rows, one, "mean", names) for one in ("pafl", "safl"))
        rest = (1 - on - off).clip(lower=0)
        return f"of their values there lie on things to be avoided: {listed(off)}; and on neither: {listed(rest)}"

    return why


def _by_setting(score: str) -> Why:
    """What each setting scores, because a mean over few may hide that they differ."""

    def why(tally: BucketMeans) -> str:
        found = tally.buckets.groupby(["setting", "method"], sort=False)[score].mean().groupby("setting", sort=False).mean()
        return f"mean {score.upper()} over methods, by setting: {listed(found)}"

    return why


def _simpler(tally: BucketMeans) -> str:
    """Where the weak four's values lie, and what SmoothGrad scores without the squares of the published settings."""
    told = _elsewhere(WEAK, simple=True)(tally)
    plainly = tally.beside("pafl", simple=True, named=lambda label: plain_name(label) == "smoothgrad")
    return told if plainly.empty else f"{told}; gradients averaged without being squared: {listed(plainly)}"


def _avoids(tally: BucketMeans) -> tuple[bool, str]:
    on, off = (tally.average(one, simple=True)[tally.enough] for one in ("pafl", "safl"))
    return most(off < on), f"{counted(off < on)}; means over methods {value(on.mean())} PAFL and {value(off.mean())} SAFL"


def _near_bar(tally: BucketMeans) -> tuple[bool, str]:
    found = tally.average("pafl", simple=False)[tally.some("IG", *LRP, *DEEPLIFT)]
    return bool(((found - BAR).abs() <= FAR).all()), listed(found)


# From simple to complex ----------------------------------------------------------------------------------------------------


def _bigger_drops(tally: BucketMeans) -> tuple[bool, str]:
    strong, others = tally.some("IG", *LRP, *DEEPLIFT), tally.some("G-CAM", "D-SHAP")
    drop = tally.average("pafl", simple=True) - tally.average("pafl", simple=False)
    usual = drop[strong].mean()
    return bool((drop[others] > usual).all()), f"drops of {listed(drop, others)}; of the others {value(usual)}"


def _far_below(tally: BucketMeans) -> tuple[bool, str]:
    told, true = [], []
    for simple in (True, False):
        average, worst = (of("pafl", simple=simple)[tally.enough] for of in (tally.average, tally.worst))
        true.append(most(average - worst > FAR))
        means = f"{value(average.mean())} on average and {value(worst.mean())} at worst"
        told.append(f"{'simple' if simple else 'complex'}: {means}, far below for {counted(average - worst > FAR)}")
    return all(true), "; ".join(told)


def _wider(tally: BucketMeans) -> tuple[bool, str]:
    before, after = (tally.spread("pafl", simple=one)[tally.enough] for one in (True, False))
    told = f"standard deviations of {value(before.mean())} and {value(after.mean())}, means over methods"
    return most(after > before), f"{counted(after > before)}; {told}"


# How many things show ------------------------------------------------------------------------------------------------------


def _by_visible(tally: BucketMeans, score: str) -> pd.DataFrame:
    """Methods by numbers of visible things, over the buckets of simple settings in which something is to be focused on."""
    rows = tally.rows(simple=True).dropna(subset=["pafl", score])
    found = rows.groupby(["method", "visible"], sort=False)[score].mean().unstack("visible").sort_index(axis=1)
    if found.shape[1] < 2:
        raise MissingError("all scenes show the same number of things")
    return found.reindex(tally.enough)


def _more_things(tally: BucketMeans) -> tuple[bool, str]:
    told, true = [], []
    for score, sign in (("pafl", -1), ("safl", 1)):
        means = _by_visible(tally, score).mean()
        true.append(bool((sign * means.diff().iloc[1:] > 0).all()))
        steps = ", ".join(f"{value(mean)} with {objects}" for objects, mean in means.items())
        told.append(f"{score.upper()} {steps}")
    return all(true), "; ".join(told)


def _more_things_each(tally: BucketMeans) -> tuple[bool, str]:
    told, true = [], []
    for score, word, sign in (("pafl", "falls", -1), ("safl", "rises", 1)):
        steps = (sign * _by_visible(tally, score).diff(axis=1).iloc[:, 1:] > 0).all(axis=1)
        true.append(bool(steps.all()))
        told.append(f"{score.upper()} {word} for {counted(steps)}")
    return all(true), "; ".join(told)


def _distracted(tally: BucketMeans) -> tuple[bool, str]:
    told, true = [], []
    for setting, object_, without in (("simple-fr", "text", (7, 10)), ("simple-nr", "box1", (2, 3, 5, 6))):
        rows = tally.rows(setting=setting)
        gone = rows["bucket"].isin(without)
        there, away = (by_method(one, "pafl", "mean", tally.enough) for one in (rows[~gone], rows[gone]))
        true.append(bool((there < away).all()))
        means = f"{value(there.mean())} with {object_}, {value(away.mean())} without"
        told.append(f"{setting}: {means}, lower for {counted(there < away, there - away)}")
    return all(true), "; ".join(told)


# Successes and failures ----------------------------------------------------------------------------------------------------


def _never_whole(tally: BucketMeans) -> tuple[bool, str]:
    weak = tally.some(*WEAK)
    told = f"shares of buckets: {listed(tally.shares('success', simple=True)[weak].mean())}"
    return not tally.whole(simple=True)[weak].to_numpy().any(), told


def _succeeds(name: str, *settings: str) -> Ask:
    def ask(tally: BucketMeans) -> tuple[bool, str]:
        rows = tally.contested(settings=settings)
        rows = rows[rows["method"].isin(tally.some(name))]
        told = f"{int(rows['success'].sum())} of {len(rows)} buckets, the lowest at {value(rows['pafl'].min())}"
        return bool(rows["success"].all()), told

    return ask


def _missed(name: str, *settings: str) -> Why:
    def why(tally: BucketMeans) -> str:
        rows = tally.contested(settings=settings)
        rows = rows[(rows["method"] == name) & ~rows["success"]]
        told = [
            f"{one['setting']} {one['bucket']} ({value(one['pafl'])} of the map where it should be, {value(one['safl'])} on "
            "what is to be avoided)"
            for one in rows.to_dict("records")
        ]
        return f"missed: {', '.join(told)}"

    return why


def _only_rescale(tally: BucketMeans) -> tuple[bool, str]:
    whole = tally.whole(simple=True, settings=SIMPLE).all()
    others = [str(one) for one in whole.index[whole] if one != "DL-R"]
    return not others, f"of {len(tally.methods)} methods: {', '.join(others) or 'none'}"


def _middle(tally: BucketMeans) -> tuple[bool, str]:
    inside = tally.some("I*G", "IG", *LRP, *DEEPLIFT)
    outside = [method for method in tally.methods if method not in inside]
    if not outside:
        raise MissingError("no other method was run")
    shares = tally.shares("success", simple=True).mean()
    ours, theirs = shares[inside].mean(), shares[outside].mean()
    return bool(ours > theirs), f"{value(ours)} of the buckets; the others {value(theirs)} ({listed(shares, outside)})"


def _single_success(tally: BucketMeans) -> tuple[bool, str]:
    whole = tally.whole(simple=False)
    pairs = [(str(one), str(setting)) for one in whole for setting in whole.index[whole[one]]]
    others = [f"{one} on {setting}" for one, setting in pairs if (one, setting) != ("LRP-E", "complex-fr")]
    return not others, f"of {whole.size} pairs of a method and a setting: {', '.join(others) or 'none'}"


def _none_everywhere(tally: BucketMeans) -> tuple[bool, str]:
    whole = tally.whole(simple=False)
    if len(whole) < 2:
        raise MissingError("at least two complex settings are needed")
    found = [str(one) for one in whole if bool(whole[one].all())]
    shares = tally.shares("success", simple=False).mean()
    return not found, f"{', '.join(found) or 'none'}; the most is {value(shares.max())} of the buckets, by {shares.idxmax()}"


def _wrong_focus(tally: BucketMeans) -> tuple[bool, str]:
    easy, hard = (float((tally.shares("failure", simple=one) > 0.5).to_numpy().mean()) for one in (True, False))
    told = f"so for {value(hard)} of the pairs of a method and a complex setting, {value(easy)} of those with a simple one"
    return hard > 0.5 > easy, told


def _cr2(tally: BucketMeans) -> tuple[bool, str]:
    rows = tally.rows(setting="complex-cr2")
    parts = {"only box2": (5, 6), "only box1": (7, 8, 9), "both boxes": (10, 11, 12)}
    found = {
        words: by_method(rows[rows["bucket"].isin(buckets)], "pafl", "mean", tally.enough)
        for words, buckets in parts.items()
    }
    told = (f"{words}: mean {value(one.mean())}, above .5 for {counted(one > BAR)}" for words, one in found.items())
    fails = all(bool((found[words] <= BAR).all()) for words in ("only box1", "both boxes"))
    return most(found["only box2"] > BAR) and fails, "; ".join(told)


QUESTIONS = (
    Question(
        "4.1",
        "in simple settings most methods (more than half) average a PAFL above .5",
        _average_above, _by_setting("pafl"), general=True,
    ),
    Question(
        "4.1",
        "in simple settings most methods average a SAFL below their PAFL",
        _avoids, _by_setting("safl"), general=True,
    ),
    Question(
        "4.1",
        "gradient, SmoothGrad, DeconvNet and guided backpropagation are weak in simple settings: each averages at most .5",
        _each(WEAK, simple=True, above=False), _simpler,
    ),
    Question(
        "4.1",
        "none of these four succeeds in all buckets of a simple setting",
        _never_whole, _simpler,
    ),
    Question(
        "4.1",
        "DeepLIFT with the rescale rule and all four LRP are strong in simple settings: each averages above .5",
        _each(("DL-R", *LRP), simple=True, above=True), _elsewhere(("DL-R", *LRP), simple=True),
    ),
    Question(
        "4.1",
        "DeepLIFT with the rescale rule succeeds in all buckets of both simple settings",
        _succeeds("DL-R", *SIMPLE), _missed("DL-R", *SIMPLE),
    ),
    Question(
        "4.1",
        "no other method succeeds in all buckets of both simple settings",
        _only_rescale,
    ),
    Question(
        "4.1",
        "input × gradient, IG, LRP and DeepLIFT succeed in more buckets of simple settings than the others do on average",
        _middle,
    ),
    Question(
        "4.1",
        "the more things show, the lower PAFL and the higher SAFL in simple settings, step by step, as means over methods",
        _more_things, general=True,
    ),
    Question(
        "4.1",
        "the more things show, the lower PAFL and the higher SAFL in simple settings, step by step, for every method",
        _more_things_each,
    ),
    Question(
        "4.1",
        "every method has a lower PAFL where a thing to be avoided shows: text in simple-fr, box1 in simple-nr",
        _distracted, general=True,
    ),
    Question(
        "4.1, 4.2",
        "the worst bucket is far (more than .1) below the average for most methods, in simple settings and in complex ones",
        _far_below, general=True,
    ),
    Question(
        "4.2",
        "in complex settings most methods average a PAFL below .5",
        _average_below, _by_setting("pafl"), general=True,
    ),
    Question(
        "4.2",
        "PAFL falls for every method from simple settings to complex ones",
        change("pafl"), both(_by_setting("pafl"), controls_move("pafl")), general=True,
    ),
    Question(
        "4.2",
        "SAFL rises for most methods from simple settings to complex ones",
        change("safl", up=True, every=False), both(_by_setting("safl"), controls_move("safl")), general=True,
    ),
    Question(
        "4.2",
        "IG, LRP and DeepLIFT are near the bar in complex settings: each averages within .1 of .5",
        _near_bar, _by_setting("pafl"),
    ),
    Question(
        "4.2",
        "Grad-CAM and DeepSHAP each fall by more than IG, LRP and DeepLIFT do on average",
        _bigger_drops,
    ),
    Question(
        "4.2",
        "gradient, SmoothGrad, DeconvNet and guided backpropagation stay weak in complex settings: each averages at most .5",
        _each(WEAK, simple=False, above=False), _elsewhere(WEAK, simple=False),
    ),
    Question(
        "4.2",
        "LRP-ε succeeds in all buckets of complex-fr",
        _succeeds("LRP-E", "complex-fr"), _missed("LRP-E", "complex-fr"),
    ),
    Question(
        "4.2",
        "beside LRP-ε on complex-fr, no method succeeds in all buckets of a complex setting",
        _single_success, _by_setting("pafl"),
    ),
    Question(
        "4.2",
        "no method succeeds in all buckets of all complex settings",
        _none_everywhere, general=True,
    ),
    Question(
        "4.2",
        "wrong focus (SAFL above PAFL in more than half of the buckets) is usual in complex settings and not in simple ones",
        _wrong_focus, _by_setting("safl"), general=True,
    ),
    Question(
        "4.2",
        "every method has a lower PAFL in its worst bucket of complex settings than in that of simple ones",
        change("pafl", worst=True), controls_move("pafl"), general=True,
    ),
    Question(
        "4.2",
        "PAFL differs more from bucket to bucket in complex settings, for most methods",
        _wider, general=True,
    ),
    Question(
        "4.2",
        "in complex-cr2 most methods average above .5 where only box2 shows beside the text, and none does where box1 shows",
        _cr2, _by_setting("pafl"),
    ),
)  # fmt: skip
"""In the order of the paper."""
