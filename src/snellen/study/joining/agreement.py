"""Do metrics predict people? Whether a metric knows on which image which method's map helps.

People's scores and the metric's stand in two tables, items down and methods across. Both are ranked, and the level of every
item and of every method is taken out; the correlation of what is left is the *link*. Levels of items are taken out because
an easy image is easy with any map. Levels of methods are taken out because they cannot be tested: that people did well with
a method everywhere, and that a metric likes it everywhere, is one agreement about three or four methods, and not one for
each image. How both order the methods as a whole is shown beside the link, untested.

The p value comes from permuting which item's metric scores meet which item's answers. That asks nothing of people: answers
may hang together, and arms may differ. The interval is the jackknife's over items. Beside it a mixed model tells how many
points people gain per standard deviation of the metric, with items as random and methods as fixed effects.
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
from markupsafe import Markup
from statsmodels.regression.mixed_linear_model import MixedLM

from snellen.charts import numbers
from snellen.charts.chart import Chart
from snellen.charts.scale import Scale
from snellen.charts.strips import Estimate, strip
from snellen.charts.verdict_marks import MARKS, colour_of
from snellen.report.readable import Readable
from snellen.runs.people import Link
from snellen.study.collected import Collected
from snellen.study.folder import Study
from snellen.study.joining import profiles
from snellen.study.joining.profiles import Answered
from snellen.study.tasks import find_task
from snellen.verdicts.statistics import holm, student

MINIMUM_ITEMS, MINIMUM_METHODS = 5, 2
"""With fewer nothing is computed."""

PERMUTATIONS = 4_999

WORDS = {"predicts": "pass", "opposite": "fail", "no sign": "inconclusive", "too few": "not counted"}
"""What is said of a metric, and which verdict's shape and colour it borrows."""

SCALE = Scale(-1.0, 1.0)

PUBLISHED = (
    "In a published study with 166 people and three methods (Kares and others, 2025), deletion and the energy pointing game "
    "went with what people could do, and no other metric did."
)


@dataclass(frozen=True)
class Row:
    """One metric against one task. Numbers are NaN where there are too few items or methods."""

    metric: str
    word: str
    """predicts, opposite, no sign or too few."""
    reason: str
    items: int
    methods: int
    link: float = math.nan
    low: float = math.nan
    high: float = math.nan
    chance: float = math.nan
    """P of the link alone."""
    p: float = math.nan
    """Corrected for the number of metrics (Holm)."""
    noise: float = math.nan
    """The standard deviation of links that chance alone gives."""
    order: float = math.nan
    """Within items, how alike people and metric order the methods, levels included; not tested."""
    across: float = math.nan
    """The same for the means of methods over all items; not tested."""
    slope: float = math.nan
    """Points that people gain per standard deviation of the metric, within methods."""
    slope_low: float = math.nan
    slope_high: float = math.nan
    slope_all: float = math.nan
    """The same with differences between methods left in; not tested."""

    @property
    def mark(self) -> dict[str, str]:
        """What is said of it as shape, word and class of a page."""
        kind = WORDS[self.word]
        return {"mark": MARKS[kind], "word": self.word, "kind": kind.replace(" ", "-")}

    @property
    def drawn(self) -> Chart:
        """The link as a dot with its interval; the grey tick is no link at all."""
        words = f"{self.metric}: {self.word}, {self.reason}"
        estimate = Estimate(mean=self.link, low=self.low, high=self.high, colour=colour_of(WORDS[self.word]))
        return strip(SCALE, estimate, description=words, ticks=[0.0])

    @property
    def shown(self) -> dict[str, str]:
        """Its numbers for people."""
        ends = numbers.interval(self.low, self.high, self.items, signs=True)
        points = numbers.interval(self.slope_low, self.slope_high, self.items, signs=True)
        return {
            "link": numbers.gain(self.link),
            "interval": ends,
            "p": _p(self.p),
            "order": _sign(self.order),
            "across": _sign(self.across),
            "slope": f"{numbers.gain(self.slope)} {points}",
            "slope_all": _sign(self.slope_all),
        }


@dataclass(frozen=True)
class TaskAgreement:
    """All metrics against one task."""

    task: str
    items: int
    methods: tuple[str, ...]
    people: int
    rows: tuple[Row, ...]
    reliability: float
    """How far two halves of the people agree on which image which map helps."""
    alpha: float

    @property
    def title(self) -> str:
        """The task's name for people."""
        return self.task.replace("-", " ").capitalize()

    @property
    def score(self) -> str:
        """What people's score is, in words."""
        return find_task(self.task).traits.score

    def named(self, word: str) -> list[str]:
        """The metrics of which this is said."""
        return [one.metric for one in self.rows if one.word == word]

    @property
    def tested(self) -> int:
        """How many metrics could be tested."""
        return sum(one.word != "too few" for one in self.rows)

    @property
    def detectable(self) -> float:
        """The link that would have been found with a chance of 80 %, as a rule: the median over metrics."""
        spread = [one.noise for one in self.rows if not math.isnan(one.noise)]
        if not spread:
            return math.nan
        z = NormalDist().inv_cdf
        return float(np.median(spread)) * (z(1 - self.alpha / (2 * len(spread))) + z(0.8))

    @property
    def sentence(self) -> str:
        """The answer, with what it is worth, after the name of the task."""
        return f"{self.title}: {self.answer[0].lower()}{self.answer[1:]}"

    @property
    def answer(self) -> str:
        """The same where the name stands above it."""
        if not self.tested:
            lack = self.rows[0].reason if self.rows else "the run has no metric"
            return f"{lack[0].upper()}{lack[1:]}, so nothing can be said."
        what = "how sharp people found maps" if find_task(self.task).traits.needs_map else "what people could do"
        parts = [f"Of {numbers.count(self.tested, 'metric')}, {_some(self.named('predicts'), f'with {what}')}"]
        if self.named("opposite"):
            parts.append(_some(self.named("opposite"), "against it"))
        silent = len(self.named("no sign"))
        if silent:
            limit = self.detectable
            seen = (
                f"only links of about {limit:.1f} or more would probably have shown"
                if limit < 1
                else "not even a perfect link would probably have shown"
            )
            items = numbers.count(self.items, "item")
            parts.append(f"for {silent} there is no sign of it, which with {items} is weak evidence: {seen}")
        return f"{'; '.join(parts)}."

    @property
    def axis(self) -> Markup:
        """What stands under the strips."""
        texts = (
            (SCALE.at(-1.0), "start", "−1 opposite"),
            (50.0, "middle", "0"),
            (SCALE.at(1.0), "end", "goes with people +1"),
        )
        inside = Markup("").join(
            Markup('<text x="{:.2f}%" y="14" text-anchor="{}">{}</text>').format(at, anchor, text)
            for at, anchor, text in texts
        )
        line = Markup('<line class="base" x1="0" x2="100%" y1="1" y2="1"/>')
        words = "scale from −1, the opposite of people, to +1, goes with people"
        return Markup('<svg class="axis" height="22" role="img" aria-label="{}">{}{}</svg>').format(words, line, inside)

    @property
    def ceiling(self) -> str:
        """How far people agree with each other, in words; empty where that cannot be told."""
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
    """Metrics against people, task by task."""

    run: str
    tasks: tuple[TaskAgreement, ...]
    simulated: bool

    @property
    def links(self) -> tuple[Link, ...]:
        """The same as a run keeps it."""
        return tuple(
            Link(task.task, one.metric, one.word, one.link, one.low, one.high, one.p, one.items, one.methods)
            for task in self.tasks
            for one in task.rows
        )

    @property
    def published(self) -> str:
        """What is known from elsewhere."""
        return PUBLISHED


def agree(run: Readable, collected: Collected, study: Study) -> Agreement:
    """Every metric of a run against every task of a study; the arm without maps has no metric scores and is left out."""
    spec = run.record.spec
    known = {one.label for one in spec.methods}
    methods = [one for one in study.protocol.arms if one in known]
    scores = run.scores()
    samples = {one.id: one.samples for one in study.items}
    found = []
    for plan in study.protocol.tasks:
        answered = Answered.of(collected, study, plan.task, methods)
        people = answered.means()
        rows = []
        for metric in spec.metrics:
            table = profiles.metric_profiles(
                scores[scores["metric"] == metric.label], samples, answered.items, answered.methods,
                higher=metric.higher_is_better,
            )  # fmt: skip
            rows.append(measure(metric.label, people, table, seed=study.protocol.seed))
        corrected = holm(np.array([one.chance for one in rows], dtype=np.float64))
        rows = [_told(one, float(p), study.protocol.alpha) for one, p in zip(rows, corrected, strict=True)]
        enough = len(answered.items) >= MINIMUM_ITEMS and len(answered.methods) >= MINIMUM_METHODS
        agreed = answered.reliability(seed=study.protocol.seed) if enough else math.nan
        found.append(
            TaskAgreement(
                plan.task, len(answered.items), answered.methods, answered.people, tuple(rows), agreed, study.protocol.alpha
            )
        )
    return Agreement(run.folder.name, tuple(found), collected.simulated)


def measure(
    metric: str, people: Float[np.ndarray, "items methods"], scores: Float[np.ndarray, "items methods"], *, seed: int
) -> Row:
    """One metric against one task, before the correction for their number; larger is better in both tables."""
    rows, columns = profiles.complete(people, scores)
    items, methods = int(rows.sum()), int(columns.sum())
    if methods < MINIMUM_METHODS or items < MINIMUM_ITEMS:
        lack = (
            f"{numbers.count(methods, 'method')} with scores, where at least {MINIMUM_METHODS} are needed"
            if methods < MINIMUM_METHODS
            else f"{numbers.count(items, 'item')} with scores, where at least {MINIMUM_ITEMS} are needed"
        )
        return Row(metric, "too few", lack, items, methods)
    mine, theirs = people[np.ix_(rows, columns)], scores[np.ix_(rows, columns)]
    level = [profiles.levelled(one) for one in (mine, theirs)]
    link = profiles.link(*level)
    if math.isnan(link):
        who = "people do" if not level[0].any() else "the metric does"
        return Row(metric, "too few", f"{who} not tell methods apart on one image otherwise than on another", items, methods)
    drawn = profiles.permuted(*level, times=PERMUTATIONS, seed=seed)
    chance = (1 + int((np.abs(drawn) >= abs(link) - 1e-12).sum())) / (1 + PERMUTATIONS)
    reach = student(0.975, items - 1) * profiles.jackknife(mine, theirs)
    slope, error, freedom = _slope(mine, theirs, within=True)
    width = student(0.975, freedom) * error
    return Row(
        metric, "no sign", "", items, methods, link, max(-1.0, link - reach), min(1.0, link + reach), chance, math.nan,
        float(drawn.std()), profiles.order(mine, theirs), _spearman(mine.mean(axis=0), theirs.mean(axis=0)),
        slope, slope - width, slope + width, _slope(mine, theirs, within=False)[0],
    )  # fmt: skip


def _told(row: Row, p: float, alpha: float) -> Row:
    if math.isnan(p):
        return row
    word = "no sign" if p >= alpha else "predicts" if row.link > 0 else "opposite"
    ends = f"link {numbers.gain(row.link)} {numbers.interval(row.low, row.high, row.items, signs=True)}"
    return replace(row, p=p, word=word, reason=f"{ends} over {numbers.count(row.items, 'item')}, p {_p(p)} corrected")


def _slope(
    people: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"], *, within: bool
) -> tuple[float, float, int]:
    """The metric's coefficient in a mixed model with items as random effects, its standard error, and degrees of freedom.

    The metric has one value per item and method, so answers are averaged to one per item and method too: counting answers
    as if each brought a metric value of its own would make anything significant. `within` adds methods as fixed effects.
    """
    items, methods = people.shape
    # Both are standardised for the fit, whose search would otherwise hang on units.
    unit = float(people.std())
    columns = [np.ones(items * methods), ((metric - metric.mean()) / metric.std()).ravel()]
    if within:
        columns += [np.tile(np.arange(methods) == at, items).astype(np.float64) for at in range(1, methods)]
    freedom = items * methods - (items - 1) - len(columns)
    model: Any = MixedLM((people / unit).ravel(), np.column_stack(columns), groups=np.repeat(np.arange(items), methods))
    try:
        with warnings.catch_warnings():
            # Items that do not differ put their variance at its bound: worth no warning, but slopes lead nowhere there.
            warnings.simplefilter("ignore")
            found = model.fit(reml=True, method="powell")
    except np.linalg.LinAlgError:
        return math.nan, math.nan, max(1, freedom)
    return unit * float(found.params[1]), unit * float(found.bse[1]), max(1, freedom)


def _spearman(one: Float[np.ndarray, " methods"], other: Float[np.ndarray, " methods"]) -> float:
    if np.ptp(one) <= 0 or np.ptp(other) <= 0:
        return math.nan
    return float(scipy.stats.spearmanr(one, other).statistic)


def _some(names: Sequence[str], which: str) -> str:
    if not names:
        return f"none goes {which}"
    return f"{len(names)} {'goes' if len(names) == 1 else 'go'} {which} ({', '.join(names)})"


def _p(value: float) -> str:
    return "not tested" if math.isnan(value) else "below 0.001" if value < 0.001 else f"{value:.2g}"


def _sign(value: float) -> str:
    return "–" if math.isnan(value) else numbers.gain(value)
