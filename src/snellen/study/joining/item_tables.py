"""Tables of items by methods, from participants' answers or from a metric, and how far two such tables agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Bool, Float, Int

from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.tasks import find_task

SPLITS = 40
"""Random divisions of the participants into two halves."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskScores:
    """All scores of one task with maps of some methods, signed so that higher is better."""

    task: str
    items: tuple[str, ...]
    """The names of the items that are no practice."""
    methods: tuple[str, ...]
    """The methods that have answers."""
    presentations: tuple[str, ...]
    """The ways in which maps were shown."""
    participant: Int[np.ndarray, " answers"]
    """By answer, the number of the participant."""
    cell: Int[np.ndarray, " answers"]
    """By answer, presentation, item and method as one number."""
    score: Float[np.ndarray, " answers"]
    """By answer, higher is better."""

    @staticmethod
    def of(collected: StudyData, study: Study, task: str, methods: Sequence[str]) -> TaskScores:
        """The scores of participants who are not excluded.

        Within subjects the mean of each participant is subtracted first.

        Args:
            collected: The answers of all participants.
            study: The study.
            task: The name of the task.
            methods: Answers with maps of other methods are left out.
        """
        answers = collected.counted.answers
        rows = answers[answers["task"] == task].sort_values(["participant", "item"], kind="stable")
        scores = rows["score"].astype(float) * (1.0 if find_task(task).traits.higher_is_better else -1.0)
        if study.protocol.design == "within" and len(rows):
            scores = scores - scores.groupby(rows["participant"]).transform("mean") + float(scores.mean())
        with_map = rows["arm"].isin(methods)
        rows, scores = rows[with_map], scores[with_map]
        items = tuple(item.id for item in study.items if item.task == task and not item.practice)
        arms = tuple(method for method in methods if method in set(rows["arm"]))
        presentations = tuple(sorted(set(rows["presentation"])))
        axes = {"presentation": presentations, "item": items, "arm": arms}
        positions = [pd.Index(names).get_indexer(pd.Index(rows[column])) for column, names in axes.items()]
        shape = tuple(map(len, axes.values()))
        cell = np.ravel_multi_index(positions, shape) if len(rows) else np.zeros(0, np.int64)
        return TaskScores(
            task=task,
            items=items,
            methods=arms,
            presentations=presentations,
            participant=pd.factorize(rows["participant"], sort=True)[0],
            cell=cell.astype(np.int64),
            score=scores.to_numpy(dtype=np.float64),
        )

    @property
    def participants(self) -> int:
        """How many answered."""
        return len(np.unique(self.participant))

    def means(self, included: Bool[np.ndarray, " answers"] | None = None) -> Float[np.ndarray, "items methods"]:
        """The mean score of every item and method, over presentations; NaN where nobody answered.

        Args:
            included: Which answers to average; all by default.
        """
        weights = np.ones(len(self.score)) if included is None else included.astype(np.float64)
        shape = len(self.presentations), len(self.items), len(self.methods)
        count = np.bincount(self.cell, weights, math.prod(shape)).reshape(shape)
        total = np.bincount(self.cell, weights * self.score, math.prod(shape)).reshape(shape)
        answered = count > 0
        mean = np.divide(total, count, where=answered, out=np.zeros(shape)).sum(axis=0)
        presentations = answered.sum(axis=0)
        # Rounded, so that equal means stay equal whatever the order of a sum.
        scale = float(np.abs(self.score).max(initial=0.0)) or 1.0
        undefined = np.full(shape[1:], np.nan)
        mean = np.round(np.divide(mean, presentations, where=presentations > 0, out=undefined) / scale, 12) * scale
        return np.asarray(mean)

    def reliability(self, *, seed: int) -> float:
        """The link between two halves of the participants, corrected to all of them (Spearman–Brown).

        No metric can agree with participants more than participants agree with each other. NaN where a half has no answer
        in some cell.
        """
        draw, links = np.random.default_rng(seed), []
        # Participants who saw the same cells are split evenly, so that no cell of a half is empty.
        first_cell = pd.Series(self.cell).groupby(self.participant).min().to_numpy()
        for _ in range(SPLITS):
            first = np.zeros(len(first_cell), dtype=bool)
            for cell in np.unique(first_cell):
                group = draw.permutation(np.flatnonzero(first_cell == cell))
                first[group[: (len(group) + int(draw.integers(2))) // 2]] = True
            halves = [self.means(half[self.participant]) for half in (first, ~first)]
            if any(np.isnan(half).any() for half in halves):
                return math.nan
            links.append(link(*map(double_centred_ranks, halves)))
        mean = float(np.mean(links)) if links else math.nan
        return 2 * mean / (1 + mean) if mean > 0 else mean


def metric_scores(
    scores: pd.DataFrame, samples: Mapping[str, Sequence[str]], items: Sequence[str], methods: Sequence[str], *, higher: bool
) -> Float[np.ndarray, "items methods"]:
    """A metric's score of every item and method, signed so that higher is better: the mean over the images of the item.

    Args:
        scores: Columns sample, method and value, of one metric.
        samples: By item, its images.
        items: Rows of the result.
        methods: Columns of the result.
        higher: Whether high values of the metric are better.
    """
    wide = scores.pivot_table(index="sample", columns="method", values="value", aggfunc="mean", dropna=False)
    wide = wide.reindex(columns=list(methods))
    rows = [wide.reindex(list(samples[item])).mean(axis=0).to_numpy(dtype=np.float64) for item in items]
    return np.array(rows).reshape(len(items), len(methods)) * (1.0 if higher else -1.0)


def complete(
    answers: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]
) -> tuple[Bool[np.ndarray, " items"], Bool[np.ndarray, " methods"]]:
    """The items and methods without missing values in either table; methods that most items lack are left out first."""
    both = ~np.isnan(answers) & ~np.isnan(metric)
    methods = both.mean(axis=0) >= 0.5
    return both[:, methods].all(axis=1) & bool(methods.any()), methods


def double_centred_ranks(values: Float[np.ndarray, "items methods"]) -> Float[np.ndarray, "items methods"]:
    """Ranks over all cells, less the mean of every item and of every method.

    What is left says on which item a method is better than usual, compared with the others there. Ranks are used because
    the units of metrics differ and some have long tails.
    """
    ranks = scipy.stats.rankdata(values).reshape(values.shape)
    centred = ranks - ranks.mean(axis=0) - ranks.mean(axis=1, keepdims=True) + ranks.mean()
    # Rounding errors are set to zero.
    return np.asarray(np.where(np.abs(centred) < 1e-9 * values.size, 0.0, centred))


def link(answers: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]) -> float:
    """The correlation of two double-centred tables; NaN where one of them is zero."""
    norm = math.sqrt(float((answers**2).sum() * (metric**2).sum()))
    return float((answers * metric).sum()) / norm if norm > 0 else math.nan


def permuted_links(
    answers: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"], *, times: int, seed: int
) -> Float[np.ndarray, " times"]:
    """The links of random permutations of the metric's items.

    Args:
        answers: Double-centred ranks of participants' mean scores.
        metric: Double-centred ranks of the metric's scores.
        times: How many permutations.
        seed: Of the permutations.
    """
    items = len(answers)
    norm = math.sqrt(float((answers**2).sum() * (metric**2).sum()))
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(items), (times, 1)), axis=1)
    return np.asarray((answers @ metric.T)[np.arange(items), order].sum(axis=1) / norm)


def jackknife_error(answers: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]) -> float:
    """The jackknife's standard error of the link over items (Tukey 1958); both tables before centring."""
    items = len(answers)
    links = [
        link(*(double_centred_ranks(np.delete(table, item, axis=0)) for table in (answers, metric))) for item in range(items)
    ]
    return math.sqrt((items - 1) / items * float(np.sum((np.array(links) - np.mean(links)) ** 2)))


def order_within_items(answers: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]) -> float:
    """Spearman's correlation over methods within each item, averaged over items; NaN where it is undefined for all."""
    correlations = [
        float(scipy.stats.spearmanr(own, other).statistic)
        for own, other in zip(answers, metric, strict=True)
        if np.ptp(own) > 0 and np.ptp(other) > 0
    ]
    return float(np.mean(correlations)) if correlations else math.nan
