"""The rules for metrics, tried on the planted problem with methods of known quality."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from snellen.errors import SnellenError
from snellen.plugins.checks.check import Check, FailedCheckError, require, require_close, summary_of
from snellen.plugins.checks.pairs import pair_of
from snellen.plugins.checks.planted import SIDE, PlantedBatch, planted_batch
from snellen.plugins.checks.planted_methods import InputTimesGradient, MarksPatch, MarksRest, planted_case, take
from snellen.plugins.outside import is_unstated
from snellen.plugins.registry import METRICS, label, spec, traits
from snellen.plugins.traits import MetricTraits
from snellen.types import Case, CurveMetric, HasPoints, Method, Metric, Passes, SharedPasses

MARKS_PATCH, MARKS_REST, GRADIENT = MarksPatch(), MarksRest(), InputTimesGradient()


def metric_checks(metric: Metric, *, good: Method | None = None, bad: Method | None = None) -> Iterator[Check]:
    """All checks of a metric, chosen by its traits.

    Args:
        metric: the metric with the settings that it is tried with.
        good: a method that the metric must score better than `bad` on every planted image; by default a method that
            marks the evidence, or another where `pairs.py` names one for this metric.
        bad: by default a method that marks everything but the evidence.
    """
    name = traits(metric).name
    usual_good, usual_bad = pair_of(name)
    direction = functools.partial(check_direction, metric, good or usual_good, bad or usual_bad)
    yield Check(plugin=name, name="direction", function=direction, summary=summary_of(check_direction))
    for rule, function in metric_rules(metric).items():
        yield Check(plugin=name, name=rule, function=functools.partial(function, metric), summary=summary_of(function))


def metric_rules(metric: Metric) -> dict[str, Callable[[Metric], None]]:
    """The rules for a metric of these traits, by name, without `direction`."""
    left_out = rules_for_other_metrics(metric)
    return {rule: function for rule, function in ALL_RULES.items() if rule not in left_out}


def rules_for_other_metrics(metric: Metric) -> dict[str, str]:
    """The rules for other kinds of metrics, each with the reason why it is left out."""
    metric_traits: MetricTraits = traits(metric)
    reasons: dict[str, str] = {}
    if is_unstated(metric_traits):
        reasons |= dict.fromkeys(("planned-passes", *RANK_RULES, *VALUE_RULES), "a plain function does not state this")
    elif metric_traits.rank_only:
        reasons |= dict.fromkeys(VALUE_RULES, "it depends on the order of pixels alone")
    else:
        reasons |= dict.fromkeys(RANK_RULES, "it depends on more than the order of pixels")
    if "truth" not in metric_traits.needs:
        reasons["empty-truth"] = "it needs no truth masks"
    if "truth" in metric_traits.needs | metric_traits.optional_needs:
        reasons["without-truth"] = "it uses truth masks"
    if not isinstance(metric, HasPoints):
        reasons["named-points"] = "it has no curve with named points"
    return reasons


def score(metric: Metric, batch: PlantedBatch, method: Method, maps: Tensor | None = None) -> Tensor:
    """The metric's scores of a method, or of other maps in its place, on planted images."""
    values = metric(planted_case(batch, method, maps=maps, metric=metric), rng=batch.rng)
    if tuple(values.shape) != (len(batch.inputs),):
        raise SnellenError(f"{len(batch.inputs)} samples get scores of the shape {tuple(values.shape)}, not one score each")
    return values


def check_bounds(metric: Metric) -> None:
    """One finite number per sample, inside the bounds."""
    for method in (MARKS_PATCH, MARKS_REST, GRADIENT):
        values = score(metric, planted_batch(4), method)
        require(values.dtype == torch.float32, f"scores are of the type {values.dtype}, not torch.float32")
        require(bool(values.isfinite().all()), f"the scores of {type(method).__name__} are {values.tolist()}")
        _require_inside(values, metric)


def check_direction(metric: Metric, good: Method, bad: Method) -> None:
    """A good method beats a bad one in the declared direction, on every image."""
    batch = planted_batch(6)
    better, worse = (score(metric, batch, method) for method in (good, bad))
    sign = 1 if traits(metric).higher_is_better else -1
    require(
        bool((sign * (better - worse) > 0).all()),
        f"with {'higher' if sign > 0 else 'lower'} as better, the good method {type(good).__name__} gets {_rounded(better)} "
        f"and the bad method {type(bad).__name__} gets {_rounded(worse)}",
    )


def _rounded(scores: Tensor) -> str:
    return ", ".join(f"{score:.3g}" for score in scores.tolist())


def check_rank_only(metric: Metric) -> None:
    """A metric of the order of pixels alone gives 3 × map + 1 the same score."""
    batch = planted_batch(4)
    # Whole numbers, with ties, stay distinct under 3m + 1; other floats may be rounded into ties.
    maps = (batch.rng.uniform("map", (SIDE, SIDE)) * 100).round() - 50
    plain, scaled = (score(metric, batch, GRADIENT, values) for values in (maps, 3 * maps + 1))
    require(torch.equal(plain, scaled), f"the scores {plain.tolist()} become {scaled.tolist()}")


def check_not_rank_only(metric: Metric) -> None:
    """A metric that is not `rank_only` depends on more than the order of pixels; otherwise it must be `rank_only`."""
    batch = planted_batch(4)
    unchanged = []
    for method in (MARKS_PATCH, MARKS_REST):
        case = planted_case(batch, method, metric=metric)
        bent = replace(case, maps=case.maps ** (1 / 8))
        unchanged.append(torch.equal(metric(case, rng=batch.rng), metric(bent, rng=batch.rng)))
    require(not all(unchanged), "a map with the same order of pixels and other values gets the same score")


def check_constant(metric: Metric) -> None:
    """A constant map has a score, or the metric's trait `undefined` says that it has none."""
    batch = planted_batch(3)
    for value in (0.0, 1.0, -2.5):
        values = score(metric, batch, GRADIENT, torch.full((3, SIDE, SIDE), value))
        require(not bool(values.isinf().any()), "a constant map gets an infinite score")
        _require_inside(values, metric)
        undefined = bool(values.isnan().any())
        require(
            not undefined or traits(metric).undefined != "never",
            "a constant map has no score, which `undefined` does not say",
        )


def check_ties(metric: Metric) -> None:
    """Equal pixels are ordered by the seed."""
    batch = planted_batch(3)
    flat = planted_case(batch, GRADIENT, maps=torch.zeros(3, SIDE, SIDE), metric=metric)
    once, again = (metric(flat, rng=batch.rng) for _ in range(2))
    other = metric(flat, rng=replace(batch.rng, seed=1))
    require(torch.equal(once, again), "the same rng gives another score")
    require(bool((once != other).all()), f"a constant map gets {once.tolist()} under two seeds")


def check_truth(metric: Metric) -> None:
    """Without a marked region the score is undefined, and without truth the case is refused."""
    batch = planted_batch(3)
    batch.truth[1] = False
    case = planted_case(batch, MARKS_PATCH, metric=metric)
    values = metric(case, rng=batch.rng)
    require(values.isnan().tolist() == [False, True, False], f"with an empty second mask the scores are {values.tolist()}")
    try:
        metric(replace(case, truth=None), rng=batch.rng)
    except SnellenError as refusal:
        name = traits(metric).name
        require(f"{name} needs a truth mask" in str(refusal), f"without truth it raises another error: {refusal}")
    else:
        raise FailedCheckError("it scores a case without truth")


def check_without_truth(metric: Metric) -> None:
    """A metric that does not need truth masks gives the same scores without them."""
    batch = planted_batch(3)
    values = score(metric, batch, GRADIENT)
    case = replace(planted_case(batch, GRADIENT, metric=metric), truth=None)
    words = "without truth masks it gives other scores; state that it needs them, needs={'truth'}"
    require_close(metric(case, rng=batch.rng), values, words, rtol=1e-5, equal_nan=True)


def check_permutation(metric: Metric) -> None:
    """Samples in another order get their scores in that order."""
    order = [3, 0, 4, 2, 1]
    for method in (GRADIENT, MARKS_REST):
        batch = planted_batch(5)
        values = score(metric, batch, method)
        permuted = score(metric, take(batch, order), method)
        require_close(permuted, values[order], "scores depend on the order of samples", rtol=1e-5)
    batch = planted_batch(5)
    maps = batch.rng.uniform("map", (SIDE, SIDE)) - 0.5  # whose scores differ, where those of a perfect method may not
    values, permuted = score(metric, batch, GRADIENT, maps), score(metric, take(batch, order), GRADIENT, maps[order])
    require_close(permuted, values[order], "scores depend on the order of samples", rtol=1e-5, equal_nan=True)


def check_batch_size(metric: Metric) -> None:
    """Neither the batch nor the number of rows per pass changes a score."""
    batch = planted_batch(4)
    whole = score(metric, batch, MARKS_REST)
    for rows in (1, 3, 64):
        batch = planted_batch(4)
        batch.classifier.rows = rows
        parts = [score(metric, take(batch, part), MARKS_REST) for part in ([0], [1, 2, 3])]
        require_close(torch.cat(parts), whole, f"{rows} rows per pass and other batches change scores", rtol=1e-5)


def check_neighbours(metric: Metric) -> None:
    """Nothing is normalised over the batch: one huge or empty map does not change the other scores."""
    batch = planted_batch(3)
    maps = GRADIENT(batch.classifier, batch.inputs, batch.targets, rng=batch.rng)
    plain = score(metric, batch, GRADIENT, maps)
    for factor in (1e6, 0.0):
        changed_maps = maps * torch.tensor([1.0, factor, 1.0]).view(3, 1, 1)
        values = score(metric, batch, GRADIENT, changed_maps)
        require_close(values[[0, 2]], plain[[0, 2]], f"the second map times {factor:g} changes other scores", rtol=1e-5)


def check_settings(metric: Metric) -> None:
    """Settings are the same after they were written and read as JSON and as text."""
    written = METRICS.parse(json.loads(json.dumps(spec(metric))))
    require(written == metric, f"JSON turns {metric!r} into {written!r}")
    require(METRICS.parse(label(metric)) == metric, f"{label(metric)} is read as {METRICS.parse(label(metric))!r}")


def check_passes(metric: Metric) -> None:
    """As many passes are made as were planned, also where some results are cached."""
    batch = planted_batch(3)
    explain = GRADIENT.passes((SIDE, SIDE), batch.classifier)
    planned = metric.passes((SIDE, SIDE), explain, batch.classifier) * 3
    case = planted_case(batch, GRADIENT, metric=metric)
    for _ in range(2):
        with batch.classifier.counting() as ledger:
            metric(case, rng=batch.rng)
        made = ledger.passes + ledger.cached
        require(made == planned, f"{planned} are planned, but {made} are made")


def check_parts(metric: Metric) -> None:
    """The parts that may be cached are within the passes of the metric with default settings."""
    metric, classifier = METRICS.build(traits(metric).name), planted_batch(1).classifier
    whole = metric.passes((SIDE, SIDE), Passes(2, 1), classifier)
    parts = metric.parts((SIDE, SIDE), Passes(2, 1), classifier) if isinstance(metric, SharedPasses) else {}
    together = sum(parts.values(), Passes())
    fits = together.forward <= whole.forward and together.backward <= whole.backward
    require(fits, f"the parts need {together}, the whole metric {whole}")
    for key, passes in parts.items():
        hash(key)
        require(passes != Passes() or whole == Passes(), f"the part {key} needs no passes")


def check_points(metric: Metric) -> None:
    """A curve with named points has one name per column."""
    batch = planted_batch(2)
    case = planted_case(batch, GRADIENT, metric=metric)
    require(isinstance(metric, CurveMetric), "it names points, but has no curve")
    if isinstance(metric, CurveMetric) and isinstance(metric, HasPoints):
        curve = metric.curve(case, rng=batch.rng)
        names = metric.points((SIDE, SIDE), batch.classifier)
        require(curve.shape == (2, len(names)), f"two curves of {len(names)} points have the shape {tuple(curve.shape)}")
        require(len(set(names)) == len(names), "two points have one name")


def check_unmodified(metric: Metric) -> None:
    """Inputs, targets, maps and truth stay as they are."""
    batch = planted_batch(3)
    case = planted_case(batch, MARKS_REST, metric=metric)
    tensors = _tensors(case)
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    metric(case, rng=batch.rng)
    for name, tensor in tensors.items():
        require(torch.equal(tensor, before[name]), f"it changes the {name} of the case")


def check_curve(metric: Metric) -> None:
    """A curve's summary is the score."""
    batch = planted_batch(3)
    if not isinstance(metric, CurveMetric):
        require(not hasattr(metric, "curve"), "it has a curve, but no score of a curve")
        return
    case = planted_case(batch, GRADIENT, metric=metric)
    from_curve, whole = metric.score(metric.curve(case, rng=batch.rng)), metric(case, rng=batch.rng)
    require_close(from_curve, whole, "score(curve) is not the score", rtol=0.0, atol=0.0, equal_nan=True)


RULES: dict[str, Callable[[Metric], None]] = {
    "bounds": check_bounds,
    "constant": check_constant,
    "permutation": check_permutation,
    "batch-size": check_batch_size,
    "neighbours": check_neighbours,
    "settings-survive-json": check_settings,
    "planned-passes": check_passes,
    "parts": check_parts,
    "inputs-unchanged": check_unmodified,
    "curve": check_curve,
}
RANK_RULES: dict[str, Callable[[Metric], None]] = {"rank-only": check_rank_only, "ties": check_ties}
VALUE_RULES: dict[str, Callable[[Metric], None]] = {"not-rank-only": check_not_rank_only}
ALL_RULES: dict[str, Callable[[Metric], None]] = (
    RULES
    | RANK_RULES
    | VALUE_RULES
    | {"empty-truth": check_truth, "without-truth": check_without_truth, "named-points": check_points}
)


def _tensors(case: Case) -> dict[str, Tensor]:
    tensors = {"inputs": case.inputs, "targets": case.targets, "maps": case.maps}
    return tensors if case.truth is None else {**tensors, "truth": case.truth}


def _require_inside(values: Tensor, metric: Metric) -> None:
    low, high = traits(metric).bounds
    defined = values[~values.isnan()]
    inside = bool(((defined >= low - 1e-6) & (defined <= high + 1e-6)).all())
    require(inside, f"the scores {values.tolist()} are not all between {low} and {high}")
