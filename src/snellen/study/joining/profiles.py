"""Profiles: how an item orders the methods, by people's answers or by a metric, and how far two profiles go together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Bool, Float, Int

from snellen.study.collected import Collected
from snellen.study.folder import Study
from snellen.study.tasks import find_task

SPLITS = 40
"""Ways to divide people into two halves."""


@dataclass(frozen=True, eq=False)
class Answered:
    """All answers of one task to maps of some methods; higher scores are better, whatever the task calls good."""

    task: str
    items: tuple[str, ...]
    methods: tuple[str, ...]
    presentations: tuple[str, ...]
    person: Int[np.ndarray, " answers"]
    place: Int[np.ndarray, " answers"]
    """Which presentation, item and method, as one number."""
    score: Float[np.ndarray, " answers"]

    @staticmethod
    def of(collected: Collected, study: Study, task: str, methods: Sequence[str]) -> Answered:
        """The answers that count. Where everybody met all arms, people's own levels are taken out first."""
        answers = collected.counted.answers
        rows = answers[answers["task"] == task].sort_values(["participant", "item"], kind="stable")
        scores = rows["score"].astype(float) * (1.0 if find_task(task).traits.higher_is_better else -1.0)
        if study.protocol.design == "within" and len(rows):
            scores = scores - scores.groupby(rows["participant"]).transform("mean") + float(scores.mean())
        seen = rows["arm"].isin(methods)
        rows, scores = rows[seen], scores[seen]
        items = tuple(one.id for one in study.items if one.task == task and not one.practice)
        arms = tuple(one for one in methods if one in set(rows["arm"]))
        shown = tuple(sorted(set(rows["presentation"])))
        axes = [pd.Index(names).get_indexer(pd.Index(rows[column])) for names, column in _named(shown, items, arms)]
        place = np.ravel_multi_index(axes, (len(shown), len(items), len(arms))) if len(rows) else np.zeros(0, np.int64)
        person = pd.factorize(rows["participant"], sort=True)[0]
        return Answered(task, items, arms, shown, person, place.astype(np.int64), scores.to_numpy(dtype=np.float64))

    @property
    def people(self) -> int:
        """How many answered."""
        return len(np.unique(self.person))

    def means(self, who: Bool[np.ndarray, " answers"] | None = None) -> Float[np.ndarray, "items methods"]:
        """People's mean score of every item and method, over presentations; NaN where nobody answered."""
        weights = np.ones(len(self.score)) if who is None else who.astype(np.float64)
        shape = len(self.presentations), len(self.items), len(self.methods)
        count = np.bincount(self.place, weights, math.prod(shape)).reshape(shape)
        total = np.bincount(self.place, weights * self.score, math.prod(shape)).reshape(shape)
        there = count > 0
        mean = np.divide(total, count, where=there, out=np.zeros(shape)).sum(axis=0)
        shown = there.sum(axis=0)
        # Equal means stay equal, whatever the last digit of a sum.
        scale = float(np.abs(self.score).max(initial=0.0)) or 1.0
        mean = np.round(np.divide(mean, shown, where=shown > 0, out=np.full(shape[1:], np.nan)) / scale, 12) * scale
        return np.asarray(mean)

    def reliability(self, *, seed: int) -> float:
        """How far two halves of the people agree on which image which map helps, carried over to all (Spearman–Brown).

        No metric can follow people farther than people follow each other. NaN where a half leaves a cell empty.
        """
        draw, found = np.random.default_rng(seed), []
        # Halves are drawn among people who met the same cells, so that none of these stays empty.
        alike = pd.Series(self.place).groupby(self.person).min().to_numpy()
        for _ in range(SPLITS):
            first = np.zeros(len(alike), dtype=bool)
            for one in np.unique(alike):
                group = draw.permutation(np.flatnonzero(alike == one))
                first[group[: (len(group) + int(draw.integers(2))) // 2]] = True
            halves = [self.means(mine[self.person]) for mine in (first, ~first)]
            if any(np.isnan(half).any() for half in halves):
                return math.nan
            found.append(link(*map(levelled, halves)))
        r = float(np.mean(found)) if found else math.nan
        return 2 * r / (1 + r) if r > 0 else r


def _named(*axes: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
    return list(zip(axes, ("presentation", "item", "arm"), strict=True))


def metric_profiles(
    scores: pd.DataFrame, samples: Mapping[str, Sequence[str]], items: Sequence[str], methods: Sequence[str], *, higher: bool
) -> Float[np.ndarray, "items methods"]:
    """A metric's score of every item and method, higher is better: the mean over the item's images that define one."""
    wide = scores.pivot_table(index="sample", columns="method", values="value", aggfunc="mean", dropna=False)
    wide = wide.reindex(columns=list(methods))
    rows = [wide.reindex(list(samples[one])).mean(axis=0).to_numpy(dtype=np.float64) for one in items]
    return np.array(rows).reshape(len(items), len(methods)) * (1.0 if higher else -1.0)


def complete(
    people: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]
) -> tuple[Bool[np.ndarray, " items"], Bool[np.ndarray, " methods"]]:
    """The items and methods of which both are known throughout; methods that most items lack are left out before items."""
    both = ~np.isnan(people) & ~np.isnan(metric)
    methods = both.mean(axis=0) >= 0.5
    return both[:, methods].all(axis=1) & bool(methods.any()), methods


def levelled(values: Float[np.ndarray, "items methods"]) -> Float[np.ndarray, "items methods"]:
    """Ranks over all cells, with the level of every item and of every method taken out.

    What is left says on which image a method is better than it usually is, compared with the others there. Ranks, because
    the units of metrics differ and some have long tails.
    """
    ranks = scipy.stats.rankdata(values).reshape(values.shape)
    found = ranks - ranks.mean(axis=0) - ranks.mean(axis=1, keepdims=True) + ranks.mean()
    # Rounding leaves a trace where nothing is left.
    return np.asarray(np.where(np.abs(found) < 1e-9 * values.size, 0.0, found))


def link(people: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]) -> float:
    """The correlation of two levelled tables; NaN where nothing is left of one of them."""
    spread = math.sqrt(float((people**2).sum() * (metric**2).sum()))
    return float((people * metric).sum()) / spread if spread > 0 else math.nan


def permuted(
    people: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"], *, times: int, seed: int
) -> Float[np.ndarray, " times"]:
    """The links when every item's answers meet the metric's scores of an item drawn at random, each once."""
    items = len(people)
    spread = math.sqrt(float((people**2).sum() * (metric**2).sum()))
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(items), (times, 1)), axis=1)
    return np.asarray((people @ metric.T)[np.arange(items), order].sum(axis=1) / spread)


def jackknife(people: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]) -> float:
    """The standard error of the link over items, each left out once (Tukey 1958); both tables as they are, not levelled."""
    items = len(people)
    left = [link(*(levelled(np.delete(one, at, axis=0)) for one in (people, metric))) for at in range(items)]
    return math.sqrt((items - 1) / items * float(np.sum((np.array(left) - np.mean(left)) ** 2)))


def order(people: Float[np.ndarray, "items methods"], metric: Float[np.ndarray, "items methods"]) -> float:
    """Spearman's correlation over methods within each item, averaged: how alike both order the methods, levels included.

    NaN where no item tells methods apart.
    """
    found = []
    for mine, theirs in zip(people, metric, strict=True):
        if np.ptp(mine) > 0 and np.ptp(theirs) > 0:
            found.append(float(scipy.stats.spearmanr(mine, theirs).statistic))
    return float(np.mean(found)) if found else math.nan
