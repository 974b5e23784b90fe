"""Whether metrics predict people: whether a metric tells on which image which method's map helps.

Participants' scores and the metric's are two tables, items by methods. Both are ranked, and the means of every item and of
every method are subtracted; the correlation of what is left is the *link*. Means of items are subtracted because an easy
image is easy with any map. Means of methods are subtracted because they cannot be tested: that participants did well with a
method on all images, and that a metric prefers it on all images, is one agreement about three or four methods, and not one
agreement per image. How both order the methods as a whole is shown beside the link, untested.

The p-value comes from permuting which item's metric scores are paired with which item's answers. It needs no assumption
about participants: their answers may be correlated, and arms may differ. The interval is the jackknife's over items. A mixed
model says how many points participants gain per standard deviation of the metric, with items as random and methods as
fixed effects.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float
from statsmodels.regression.mixed_linear_model import MixedLM

from snellen.charts import numbers
from snellen.charts.chart import Chart, Label, horizontal_line
from snellen.charts.scale import Scale
from snellen.charts.strips import Estimate, strip
from snellen.charts.verdict_marks import MARKS, colour_of
from snellen.files.folder import folder_at
from snellen.report.readable import Readable
from snellen.runs.people import MetricLink
from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.joining import item_tables
from snellen.study.joining.item_tables import TaskScores
from snellen.study.tasks import find_task
from snellen.verdicts.statistics import holm

MINIMUM_ITEMS, MINIMUM_METHODS = 5, 2
"""With fewer nothing is computed."""

PERMUTATIONS = 4_999

VERDICTS = {"predicts": "pass", "opposite": "fail", "no sign": "inconclusive", "too few": "not counted"}
"""By relation, the verdict whose shape and colour it has."""

SCALE = Scale(-1.0, 1.0)

PUBLISHED = (
    "In a published study with 166 people and three methods (Kares and others, 2025), deletion and the energy pointing game "
    "went with what people could do, and no other metric did."
)


@dataclass(frozen=True, kw_only=True)
class MetricAgreement:
    """One metric against one task. Numbers are NaN where there are too few items or methods."""

    metric: str
    """Its label."""
    relation: str
    """predicts, opposite, no sign or too few."""
    reason: str
    """Why, in words."""
    items: int
    methods: int
    """How many items and methods have scores of both."""
    link: float = math.nan
    low: float = math.nan
    high: float = math.nan
    """The link with the ends of its 95 % interval."""
    p_uncorrected: float = math.nan
    """Of the permutation test."""
    p_holm: float = math.nan
    """Corrected for the number of metrics."""
    chance_deviation: float = math.nan
    """The standard deviation of links of random permutations."""
    order_within_items: float = math.nan
    """The rank correlation over methods within items, means of methods included; not tested."""
    order_of_means: float = math.nan
    """The rank correlation of the means of methods over all items; not tested."""
    slope: float = math.nan
    """Points that participants gain per standard deviation of the metric, within methods."""
    slope_low: float = math.nan
    slope_high: float = math.nan
    """The ends of its 95 % interval."""
    slope_all: float = math.nan
    """The same with differences between methods included; not tested."""

    @property
    def mark(self) -> dict[str, str]:
        """The relation as shape, word and CSS class."""
        kind = VERDICTS[self.relation]
        return {"mark": MARKS[kind], "word": self.relation, "kind": kind.replace(" ", "-")}

    @property
    def chart(self) -> Chart:
        """The link as a dot with its interval; the grey tick is zero."""
        label = f"{self.metric}: {self.relation}, {self.reason}"
        estimate = Estimate(mean=self.link, low=self.low, high=self.high, colour=colour_of(VERDICTS[self.relation]))
        return strip(SCALE, estimate, description=label, ticks=[0.0])

    @property
    def texts(self) -> dict[str, str]:
        """Its numbers as text."""
        slope_interval = numbers.interval(self.slope_low, self.slope_high, self.items, signs=True)
        return {
            "link": numbers.signed(self.link),
            "interval": numbers.interval(self.low, self.high, self.items, signs=True),
            "p": _p_value(self.p_holm),
            "order_within_items": _signed(self.order_within_items),
            "order_of_means": _signed(self.order_of_means),
            "slope": f"{numbers.signed(self.slope)} {slope_interval}",
            "slope_all": _signed(self.slope_all),
        }


@dataclass(frozen=True, kw_only=True)
class TaskAgreement:
    """All metrics against one task."""

    task: str
    items: int
    """How many items that are no practice."""
    methods: tuple[str, ...]
    """The methods of the run whose maps participants saw."""
    participants: int
    """How many answered."""
    metrics: tuple[MetricAgreement, ...]
    reliability: float
    """The link between two halves of the participants, corrected to all of them."""
    alpha: float
    """The level of the tests."""

    @property
    def title(self) -> str:
        """The name of the task on a page."""
        return self.task.replace("-", " ").capitalize()

    @property
    def score(self) -> str:
        """What the score of the task is, in words."""
        return find_task(self.task).traits.score

    def metrics_with(self, relation: str) -> list[str]:
        """The names of the metrics with this relation."""
        return [metric.metric for metric in self.metrics if metric.relation == relation]

    @property
    def tested(self) -> int:
        """How many metrics could be tested."""
        return sum(metric.relation != "too few" for metric in self.metrics)

    @property
    def detectable(self) -> float:
        """The link that would be detected with a probability of 80 %, typically: the median over metrics."""
        deviations = [metric.chance_deviation for metric in self.metrics if not math.isnan(metric.chance_deviation)]
        if not deviations:
            return math.nan
        z = NormalDist().inv_cdf
        return float(np.median(deviations)) * (z(1 - self.alpha / (2 * len(deviations))) + z(0.8))

    @property
    def sentence(self) -> str:
        """The answer after the name of the task."""
        return f"{self.title}: {self.answer[0].lower()}{self.answer[1:]}"

    @property
    def answer(self) -> str:
        """Which metrics agree with participants, and how much no sign of agreement means."""
        if not self.tested:
            lack = self.metrics[0].reason if self.metrics else "the run has no metric"
            return f"{lack[0].upper()}{lack[1:]}, so nothing can be said."
        what = "how sharp people found maps" if find_task(self.task).traits.needs_map else "what people could do"
        parts = [
            f"Of {numbers.count(self.tested, 'metric')}, {_counted_sentence(self.metrics_with('predicts'), f'with {what}')}"
        ]
        if opposite := self.metrics_with("opposite"):
            parts.append(_counted_sentence(opposite, "against it"))
        if without_sign := len(self.metrics_with("no sign")):
            limit = self.detectable
            visible = (
                f"only links of about {limit:.1f} or more would probably have shown"
                if limit < 1
                else "not even a perfect link would probably have shown"
            )
            items = numbers.count(self.items, "item")
            parts.append(f"for {without_sign} there is no sign of it, which with {items} is weak evidence: {visible}")
        return f"{'; '.join(parts)}."

    @property
    def axis(self) -> Chart:
        """The axis under the links."""
        labels = (
            Label(x=SCALE.at(-1.0), y=14, text="−1 opposite"),
            Label(x=50, y=14, text="0", anchor="middle"),
            Label(x=SCALE.at(1.0), y=14, text="goes with people +1", anchor="end"),
        )
        description = "scale from −1, the opposite of people, to +1, goes with people"
        return Chart(description=description, shapes=(horizontal_line(1), *labels), height=22, kind="axis")

    @property
    def ceiling(self) -> str:
        """How far participants agree with each other, in words; empty where that is not defined."""
        if math.isnan(self.reliability):
            return ""
        if self.reliability <= 0:
            return "Two halves of the people do not agree on which image which map helps, so no metric could follow them."
        best = math.sqrt(self.reliability)
        return (
            f"Two halves of the people agree to {self.reliability:.2f} on which image which map helps; "
            f"with so much noise a perfect metric would reach a link of about {best:.2f}."
        )


@dataclass(frozen=True)
class Agreement:
    """The metrics of a run against the tasks of a study."""

    run: str
    """The name of the run's folder."""
    tasks: tuple[TaskAgreement, ...]
    simulated: bool
    """Whether the participants are simulated."""

    @property
    def links(self) -> tuple[MetricLink, ...]:
        """The links as they are stored in the run."""
        return tuple(
            MetricLink(
                task=task.task, metric=metric.metric, word=metric.relation, estimate=metric.link, low=metric.low,
                high=metric.high, p=metric.p_holm, items=metric.items, methods=metric.methods,
            )
            for task in self.tasks
            for metric in task.metrics
        )  # fmt: skip

    @property
    def published(self) -> str:
        """The published result, for comparison."""
        return PUBLISHED


def agree(run: Readable, collected: StudyData, study: Study) -> Agreement:
    """Every metric of a run against every task of a study. The arm without maps has no metric scores and is left out.

    Args:
        run: A run of the same model and images.
        collected: The answers of the participants.
        study: The study.
    """
    spec, protocol, scores = run.record.spec, study.protocol, run.scores()
    labels = {method.label for method in spec.methods}
    methods = [arm for arm in protocol.arms if arm in labels]
    samples = {item.id: item.samples for item in study.items}
    tasks = []
    for plan in protocol.tasks:
        answers = TaskScores.of(collected, study, plan.task, methods)
        means = answers.means()
        metrics = []
        for metric in spec.metrics:
            table = item_tables.metric_scores(
                scores[scores["metric"] == metric.label], samples, answers.items, answers.methods,
                higher=metric.higher_is_better,
            )  # fmt: skip
            metrics.append(measure(metric.label, means, table, seed=protocol.seed))
        corrected = holm(np.array([metric.p_uncorrected for metric in metrics], dtype=np.float64))
        enough = len(answers.items) >= MINIMUM_ITEMS and len(answers.methods) >= MINIMUM_METHODS
        tasks.append(
            TaskAgreement(
                task=plan.task,
                items=len(answers.items),
                methods=answers.methods,
                participants=answers.participants,
                metrics=tuple(
                    _with_relation(metric, float(p), protocol.alpha) for metric, p in zip(metrics, corrected, strict=True)
                ),
                reliability=answers.reliability(seed=protocol.seed) if enough else math.nan,
                alpha=protocol.alpha,
            )
        )
    return Agreement(folder_at(run.folder).name, tuple(tasks), collected.simulated)


def measure(
    metric: str, answers: Float[np.ndarray, "items methods"], scores: Float[np.ndarray, "items methods"], *, seed: int
) -> MetricAgreement:
    """One metric against one task, before the correction for the number of metrics.

    Args:
        metric: Its name.
        answers: Mean scores of participants, higher is better.
        scores: Scores of the metric, higher is better.
        seed: Of the permutations.
    """
    rows, columns = item_tables.complete(answers, scores)
    items, methods = int(rows.sum()), int(columns.sum())
    untested = MetricAgreement(metric=metric, relation="too few", reason="", items=items, methods=methods)
    if methods < MINIMUM_METHODS:
        lack = f"{numbers.count(methods, 'method')} with scores, where at least {MINIMUM_METHODS} are needed"
        return replace(untested, reason=lack)
    if items < MINIMUM_ITEMS:
        lack = f"{numbers.count(items, 'item')} with scores, where at least {MINIMUM_ITEMS} are needed"
        return replace(untested, reason=lack)
    answers, scores = answers[np.ix_(rows, columns)], scores[np.ix_(rows, columns)]
    centred = [item_tables.double_centred_ranks(table) for table in (answers, scores)]
    link = item_tables.link(*centred)
    if math.isnan(link):
        by_whom = "by people's answers" if not centred[0].any() else "by the metric"
        return replace(untested, reason=f"{by_whom} methods differ in the same way on every image")
    permuted = item_tables.permuted_links(*centred, times=PERMUTATIONS, seed=seed)
    half_width = float(scipy.stats.t.ppf(0.975, items - 1)) * item_tables.jackknife_error(answers, scores)
    slope, error, residual_df = _slope(answers, scores, within=True)
    slope_half_width = float(scipy.stats.t.ppf(0.975, residual_df)) * error
    return replace(
        untested,
        relation="no sign",
        link=link,
        low=max(-1.0, link - half_width),
        high=min(1.0, link + half_width),
        p_uncorrected=(1 + int((np.abs(permuted) >= abs(link) - 1e-12).sum())) / (1 + PERMUTATIONS),
        chance_deviation=float(permuted.std()),
        order_within_items=item_tables.order_within_items(answers, scores),
        order_of_means=_spearman(answers.mean(axis=0), scores.mean(axis=0)),
        slope=slope,
        slope_low=slope - slope_half_width,
        slope_high=slope + slope_half_width,
        slope_all=_slope(answers, scores, within=False)[0],
    )


def _with_relation(metric: MetricAgreement, p: float, alpha: float) -> MetricAgreement:
    if math.isnan(p):
        return metric
    relation = "no sign" if p >= alpha else "predicts" if metric.link > 0 else "opposite"
    interval = f"link {numbers.signed(metric.link)} {numbers.interval(metric.low, metric.high, metric.items, signs=True)}"
    reason = f"{interval} over {numbers.count(metric.items, 'item')}, p {_p_value(p)} corrected"
    return replace(metric, p_holm=p, relation=relation, reason=reason)


def _slope(
    answers: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"], *, within: bool
) -> tuple[float, float, int]:
    """The metric's coefficient in a mixed model with random items, its standard error, and degrees of freedom.

    The metric has one value per item and method, so answers are averaged to one per item and method too: single answers
    are not independent observations of the metric. `within` adds methods as fixed effects.
    """
    items, methods = answers.shape
    # Both are standardised, because the search for the best fit depends on units.
    unit = float(answers.std())
    columns = [np.ones(items * methods), ((metric - metric.mean()) / metric.std()).ravel()]
    if within:
        columns += [np.tile(np.arange(methods) == method, items).astype(np.float64) for method in range(1, methods)]
    residual_df = max(1, items * methods - (items - 1) - len(columns))
    model: Any = MixedLM((answers / unit).ravel(), np.column_stack(columns), groups=np.repeat(np.arange(items), methods))
    try:
        with warnings.catch_warnings():
            # Where items do not differ, their variance is zero, which statsmodels warns of; other searches fail there.
            warnings.simplefilter("ignore")
            fitted = model.fit(reml=True, method="powell")
    except np.linalg.LinAlgError:
        return math.nan, math.nan, residual_df
    return unit * float(fitted.params[1]), unit * float(fitted.bse[1]), residual_df


def _spearman(first: Float[np.ndarray, " methods"], second: Float[np.ndarray, " methods"]) -> float:
    if np.ptp(first) <= 0 or np.ptp(second) <= 0:
        return math.nan
    return float(scipy.stats.spearmanr(first, second).statistic)


def _counted_sentence(metrics: Sequence[str], where: str) -> str:
    """How many metrics go `with` something or `against` it, with their names."""
    if not metrics:
        return f"none goes {where}"
    return f"{len(metrics)} {'goes' if len(metrics) == 1 else 'go'} {where} ({', '.join(metrics)})"


def _p_value(p: float) -> str:
    return "not tested" if math.isnan(p) else "below 0.001" if p < 0.001 else f"{p:.2g}"


def _signed(value: float) -> str:
    return "–" if math.isnan(value) else numbers.signed(value)
