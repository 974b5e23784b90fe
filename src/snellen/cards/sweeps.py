"""How much a method's map, and its rank among the run's methods, change with each of its settings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch

from snellen.cards.loaded_run import LoadedRun, failures
from snellen.cards.schema import Finding
from snellen.charts.numbers import count, join_names
from snellen.errors import SnellenError
from snellen.maps.similarity import likeness_to
from snellen.methods.class_activation import find_layer
from snellen.plugins.registry import METHODS, METRICS, label, spec, text_of, traits
from snellen.plugins.traits import LAYERS
from snellen.runs import Run, requirements
from snellen.runs.progress import weight_of
from snellen.types import Method, Metric, NeedsVariants, Passes

HARDLY, STRONGLY = 0.9, 0.5
"""Mean rank correlations: from HARDLY on, a map hardly depends on a setting; below STRONGLY, strongly."""

FAINT = 0.25
"""Minimum of the rank correlation between a method's own maps with two seeds, for a statement about its settings.

Below it, more than three quarters of a map is random, and dividing by so small a number is not reliable.
"""

RANKING_METRICS = 2
"""Number of metrics by which methods are ranked."""


@dataclass(frozen=True, kw_only=True)
class SettingTrial:
    """One setting of one method of the run changed to one other value."""

    setting: str
    """Its name."""
    value: str
    """As on the command line."""
    method: Method
    """The method with this value."""
    weight: float
    """The cost of one map and its scores, in forward passes."""


UntriedValue = tuple[str, str, str]
"""A setting, a value of it that is not tried, and why not."""


class TriedValue(TypedDict):
    """What one other value of a setting does to the maps and to the rank of the method."""

    correlation: float
    """The mean rank correlation with the run's maps; NaN if none is defined."""
    undefined: int
    """Maps whose correlation is undefined."""
    places: dict[str, list[int]]
    """By metric, the rank among the run's methods before and after; absent where there is none."""


class TriedSetting(TypedDict):
    """What a setting of a method does, as findings store it."""

    own: str
    """Its value in the run."""
    values: dict[str, TriedValue]
    not_tried: dict[str, str]
    """By value, why it was not tried."""
    mean: float
    lowest: float
    """Of the correlations over all values; NaN if none is defined."""
    lowest_value: str | None
    """The value with the lowest correlation."""
    moved: int | None
    """The most places that a value moves the method; None if no metric ranks it."""
    moved_by: str | None
    """The metric that ranks it so."""
    moved_value: str | None
    """The value that does."""


def trials_of(method: Method, loaded: LoadedRun, scoring: float) -> tuple[list[SettingTrial], list[UntriedValue]]:
    """Every declared value of every setting, and the default; values that cannot work are returned with the reason.

    `scoring` is the cost of the scores of one map, in forward passes.
    """
    written = spec(method)
    trials: list[SettingTrial] = []
    left: list[UntriedValue] = []
    seen = {label(method)}
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        values = traits(type(method)).ranges.get(field.name)
        if values is None:
            left.append((field.name, "", "the method declares no range"))
            continue
        if values == LAYERS:
            own = find_layer(getattr(method, field.name), loaded.classifier, loaded.inputs)
            values = loaded.classifier.layer_layouts(loaded.inputs).earlier_layers(own)
        for value in (*values, getattr(type(method)(), field.name)):
            setting_value = spec(value) if hasattr(value, "traits") else value
            try:
                built = METHODS.build(written["name"], {**written["params"], field.name: setting_value})
            except SnellenError as refusal:
                left.append((field.name, text_of(value), str(refusal)))
                continue
            if label(built) in seen:
                continue
            seen.add(label(built))
            text = text_of(getattr(built, field.name))
            able, refused = requirements.split_by_support(loaded.classifier, [built], loaded.inputs)
            if not able:
                left.append((field.name, text, refused[label(built)]))
            else:
                trials.append(
                    SettingTrial(
                        setting=field.name, value=text, method=built, weight=weight_of(loaded.passes(built)) + scoring
                    )
                )
    return trials, left


def afford(trials: Sequence[SettingTrial], images: int, budget: float) -> tuple[list[SettingTrial], int, list[UntriedValue]]:
    """The trials of one method that fit into the budget (forward passes), the number of images, and the other trials.

    The cheapest value of every setting is always tried on one image, because a grade without some setting would be too
    good; then come the other values, the cheapest first, and then more images for all of them. The budget is not a time:
    a busy machine must not change a card.
    """
    ordered = sorted(trials, key=lambda trial: trial.weight)
    first: dict[str, SettingTrial] = {}
    for trial in ordered:
        first.setdefault(trial.setting, trial)
    chosen = list(first.values())
    spent = sum(value.weight for value in chosen)
    for trial in ordered:
        if trial not in chosen and spent + trial.weight <= budget:
            chosen.append(trial)
            spent += trial.weight
    left = [
        (trial.setting, trial.value, f"a map would cost about as much as {trial.weight:,.0f} forward passes")
        for trial in trials
        if trial not in chosen
    ]
    affordable = max(1, min(images, int(budget // spent))) if spent else images
    return [trial for trial in trials if trial in chosen], affordable, left


def cheap_metrics(loaded: LoadedRun, ids: Sequence[str]) -> list[Metric]:
    """Two metrics of the run that use only the map, of different attributes if possible; the cheapest come first.

    Among equally cheap ones, that with the most distinct scores on these images comes first.
    """
    scores = loaded.run.scores()
    scores = scores[scores["sample"].isin(ids)]
    cheap = []
    for metric_spec in loaded.run.record.spec.metrics:
        metric = METRICS.build(metric_spec.name, metric_spec.params)
        if traits(metric).version != metric_spec.version or isinstance(metric, NeedsVariants):
            continue
        if traits(metric).needs <= {"truth", "labels"}:
            values = scores[scores["metric"] == metric_spec.label]["value"]
            cost = weight_of(metric.passes(loaded.size, Passes(), loaded.classifier))
            cheap.append((cost, -values.nunique(), metric_spec.attribute, metric))
    cheap.sort(key=lambda pair: pair[:2])
    first = cheap[:1]
    other = [pair for pair in cheap[1:] if pair[2] != first[0][2]] or cheap[1:]
    return [metric for *_, metric in first + other[: RANKING_METRICS - 1]]


def dependence(
    own: str,
    trials: Sequence[SettingTrial],
    left: Sequence[UntriedValue],
    loaded: LoadedRun,
    side: Run | None,
    ids: Sequence[str],
    chance: float = 1.0,
) -> Finding:
    """The finding on hyperparameter dependence; `side` is the run with the maps and scores of the trials on these images.

    The trials were made under another seed than the run's own maps, and `chance` is the mean rank correlation that another
    seed alone gives; the effect of a setting is measured relative to it (see `remaining`).
    """
    method = loaded.methods[own]
    if not dataclasses.fields(method):  # type: ignore[arg-type]
        return Finding(
            attribute="hyperparameter-dependence",
            word="no settings",
            sentence="It has no settings.",
            share=1.0,
            numbers={"settings": {}},
        )
    names = [field.name for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    not_tried: dict[str, dict[str, str]] = {name: {} for name in names}
    for setting, value, reason in left:
        not_tried[setting][value] = reason
    values: dict[str, dict[str, TriedValue]] = {name: {} for name in names}
    if side is not None:
        _try_all(own, trials, loaded, side, ids, values, not_tried)
    settings = {name: _summary(_own_value(method, name, loaded), values[name], not_tried[name]) for name in names}
    defined = {name: facts for name, facts in settings.items() if not math.isnan(facts["mean"])}
    metrics, methods = [] if side is None else side.metrics, len(_methods(loaded.run))
    numbers = {"settings": settings, "n": len(ids), "metrics": metrics, "methods": methods, "chance": chance}
    if not defined:
        reasons = [reason for facts in settings.values() for reason in facts["not_tried"].values()]
        why = reasons[0] if reasons else "all maps are constant, so no rank correlation is defined"
        return Finding(
            attribute="hyperparameter-dependence",
            word="not known",
            sentence=f"No setting could be tried: {why}.",
            share=math.nan,
            numbers=numbers,
        )
    worst = min(defined, key=lambda name: defined[name]["mean"])
    share = remaining(defined[worst]["mean"], chance)
    if math.isnan(share):
        why = (
            f"another seed alone gives maps with a mean rank correlation of {chance:.2f}, below {FAINT}, so what a setting "
            "does cannot be told from chance"
        )
        return Finding(
            attribute="hyperparameter-dependence",
            word="not known",
            sentence=f"Not known: {why}.",
            share=math.nan,
            numbers=numbers,
        )
    word = "hardly" if share >= HARDLY else "strongly" if share < STRONGLY else "somewhat"
    return Finding(
        attribute="hyperparameter-dependence",
        word=word,
        sentence=_sentence(worst, settings, metrics, images=len(ids), methods=methods, chance=chance, share=share),
        share=share,
        numbers=numbers,
    )


def remaining(correlation: float, chance: float) -> float:
    """The share of the correlation between seeds that remains with another setting; NaN if maps are mostly random.

    Both arguments are mean rank correlations between maps with two seeds, the first with another setting too. Randomness
    lowers both equally, so a setting without effect gives 1. If `chance` is NaN, nothing is corrected.
    """
    if chance < FAINT:
        return math.nan
    return min(1.0, max(0.0, correlation / (1.0 if math.isnan(chance) else chance)))


def _own_value(method: Method, setting: str, loaded: LoadedRun) -> str:
    value = getattr(method, setting)
    if value is None and traits(type(method)).ranges.get(setting) == LAYERS:
        value = find_layer(value, loaded.classifier, loaded.inputs)
    return text_of(value)


def _try_all(
    own: str,
    trials: Sequence[SettingTrial],
    loaded: LoadedRun,
    side: Run,
    ids: Sequence[str],
    values: dict[str, dict[str, TriedValue]],
    not_tried: dict[str, dict[str, str]],
) -> None:
    """Puts what every trial does into `values`, by setting and value, and failed ones into `not_tried`."""
    compare = likeness_to(torch.from_numpy(loaded.maps(own, len(ids))), "spearman")
    failed = failures(side)
    before, after = _means(loaded.run, ids, side.metrics), _means(side, ids, side.metrics)
    rivals = [method for method in _methods(loaded.run) if method != own]
    for trial in trials:
        name = label(trial.method)
        if name in failed:
            not_tried[trial.setting][trial.value] = failed[name]
            continue
        likeness = compare(torch.from_numpy(side.maps(name, ids)))
        defined = likeness[~likeness.isnan()]
        places: dict[str, list[int]] = {}
        for metric in side.record.spec.metrics:
            table = before.get(metric.label, {})
            others = [table[rival] for rival in rivals if rival in table]
            ranks = [
                place(means.get(method, math.nan), others, higher=metric.higher_is_better)
                for method, means in ((own, table), (name, after.get(metric.label, {})))
            ]
            defined_ranks = [rank for rank in ranks if rank is not None]
            if rivals and len(defined_ranks) == len(ranks):
                places[metric.label] = defined_ranks
        values[trial.setting][trial.value] = {
            "correlation": float(defined.mean()) if len(defined) else math.nan,
            "undefined": len(likeness) - len(defined),
            "places": places,
        }


def _summary(own: str, values: dict[str, TriedValue], not_tried: dict[str, str]) -> TriedSetting:
    correlations = {
        value: outcome["correlation"] for value, outcome in values.items() if not math.isnan(outcome["correlation"])
    }
    moves = [
        (abs(then - now), metric, value)
        for value, outcome in values.items()
        for metric, (then, now) in outcome["places"].items()
    ]
    lowest = min(correlations, key=lambda value: correlations[value]) if correlations else None
    moved, moved_by, moved_value = max(moves, default=(None, None, None), key=lambda move: move[0] or 0)
    return TriedSetting(
        own=own,
        values=values,
        not_tried=not_tried,
        mean=sum(correlations.values()) / len(correlations) if correlations else math.nan,
        lowest=math.nan if lowest is None else correlations[lowest],
        lowest_value=lowest,
        moved=moved,
        moved_by=moved_by,
        moved_value=moved_value,
    )


def _sentence(
    worst: str,
    settings: Mapping[str, TriedSetting],
    metrics: Sequence[str],
    *,
    images: int,
    methods: int,
    chance: float,
    share: float,
) -> str:
    tried = {name: len(facts["values"]) for name, facts in settings.items() if facts["values"]}
    facts = settings[worst]
    words = [
        f"{count(sum(tried.values()), 'other value')} of {join_names(list(tried))} on {count(images, 'image')}: "
        f"the map depends most on {worst} (mean rank correlation {facts['mean']:.2f} with the run's "
        f"{worst}={facts['own']}; lowest {facts['lowest']:.2f} at {facts['lowest_value']})"
    ]
    if chance < 1:
        words.append(f"another seed alone gives {chance:.2f}, of which {share:.0%} is left")
    moves = {name: facts["moved"] for name, facts in settings.items() if facts["moved"] is not None}
    moved = max(moves, default=None, key=lambda name: moves[name])
    if moved is None:
        words.append("no metric of the run could rank it")
    elif moves[moved] == 0:
        words.append(f"its rank among the run's {methods} methods by {join_names(metrics)} does not change")
    else:
        most = settings[moved]
        words.append(
            f"{moved}={most['moved_value']} moves it {count(moves[moved], 'rank')} "
            f"among the run's {methods} methods by {most['moved_by']}"
        )
    undefined = sum(outcome["undefined"] for facts in settings.values() for outcome in facts["values"].values())
    if undefined:
        words.append(f"{count(undefined, 'correlation')} undefined: constant maps")
    left = sum(len(facts["not_tried"]) for facts in settings.values())
    if left:
        words.append(f"{count(left, 'value')} not tried")
    return "; ".join(words) + "."


def place(value: float, others: Sequence[float], *, higher: bool) -> int | None:
    """The rank of a mean among others, from 1, the best; None if it is NaN."""
    if math.isnan(value):
        return None
    return 1 + sum(other > value if higher else other < value for other in others)


def _methods(run: Run) -> list[str]:
    return [method.label for method in run.record.spec.methods if not method.control]


def _means(run: Run, ids: Sequence[str], metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """By metric and method, the mean of the defined scores of these images."""
    scores = run.scores()
    scores = scores[scores["sample"].isin(ids)]
    by_metric: dict[str, dict[str, float]] = {}
    for metric in metrics:
        means = scores[scores["metric"] == metric].groupby("method")["value"].mean()
        by_metric[metric] = {str(method): float(value) for method, value in means.items()}
    return by_metric
