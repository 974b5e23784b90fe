"""The looks at a run whose pictures come in a drawn order: while it goes on, and again from its stored scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from snellen.runs.record import RunRecord, Spec
from snellen.runs.schedule import Until
from snellen.verdicts.rule import Looked, metric_tables
from snellen.verdicts.sampling import Sampling, sampling_of
from snellen.verdicts.sequential import Looks, MetricLooks, MetricScores
from snellen.verdicts.statistics import MINIMUM_IMAGES, certainty, sample_names


class RunLooks:
    """What `runs.schedule.Decider` asks for, by the rule of `sequential`."""

    def __init__(self, spec: Spec, samples: Sequence[str], sampling: Sampling) -> None:
        self._spec, self._sampling = spec, sampling
        self._place = {sample: place for place, sample in enumerate(samples)}
        self._methods = [method.label for method in spec.methods if not method.control]
        self._controls = [method.label for method in spec.methods if method.control]
        self._until = Until.parse(spec.until) if spec.until else Until()
        looks = Looks.plan(len(samples), spec.shard)
        self.tests = {
            metric.label: MetricLooks(
                metric,
                methods=self._methods,
                controls=self._controls,
                looks=looks,
                until=self._until,
                seed=spec.seed,
                unit=sampling.unit,
            )
            for metric in spec.metrics
        }
        self._metrics = {metric.label: metric for metric in spec.metrics}

    @staticmethod
    def of_record(record: RunRecord) -> RunLooks:
        """The looks at a run, before the first."""
        rows = record.samples.rows
        samples = pd.DataFrame({name: rows.values(name) for name in ("sample", "label", "group")})
        classifier = record.classifier
        sampling = sampling_of(samples, None if classifier.is_number else classifier.classes, number=classifier.is_number)
        return RunLooks(record.spec, rows.values("sample"), sampling)

    def look(self, metric: str, scores: pd.DataFrame, absent: Iterable[str]) -> bool:
        """Takes the next look, and returns whether the scores that it needs were there."""
        computed = scores.assign(metric=metric)
        (table,) = metric_tables(computed, self._spec.methods, [self._metrics[metric]])
        names = sample_names(computed)
        done = _computed(computed, names, [*self._methods, *self._controls], set(absent))
        method_done, control_done = np.split(done, [len(self._methods)], axis=1)
        return self.tests[metric].look(
            MetricScores(
                methods=table.method_scores,
                controls=table.control_scores,
                method_done=method_done,
                control_done=control_done,
                place=np.array([self._place[name] for name in names], dtype=np.int64),
                absent=frozenset(absent),
                clusters=self._sampling.clusters(names),
            )
        )

    def size(self, metric: str) -> int:
        """After how many pictures the last look was."""
        return self.tests[metric].size

    def next_size(self, metric: str) -> int | None:
        """After how many pictures the next look is; None where none is needed."""
        return self.tests[metric].next_size

    def needs(self, metric: str) -> tuple[str, ...]:
        """The methods and controls whose scores the next look needs; positive controls come with the first."""
        positive = () if self.size(metric) else tuple(control.label for control in self._spec.positive_controls)
        return (*self.tests[metric].needs(), *positive)

    def expected(self, metric: str) -> float:
        """How many verdicts the next look is expected to settle."""
        return self.tests[metric].expected()

    def further(self, metric: str) -> int:
        """About how many pictures more, of this run, would settle what is open."""
        return self.tests[metric].further()

    def words(self) -> str:
        """How many verdicts are settled, will hardly be, or are open."""
        if len(self._place) < MINIMUM_IMAGES:
            return certainty(len(self._place)).words
        states = [test.state(method) for test in self.tests.values() for method in self._methods]
        total, images = len(states), f"{len(self._place):,} images"
        settled = "verdicts are settled" if self._until.half_width is None else "verdicts have the precision"
        words = [f"{states.count('settled'):,} of {total:,} {settled}"]
        if hardly := states.count("hopeless"):
            words.append(f"{hardly:,} stay inconclusive on these {images}")
        if left := states.count("open"):
            words.append(f"{left:,} {'is' if left == 1 else 'are'} open")
        return ", ".join(words)


def take_looks(
    spec: Spec, samples: Sequence[str], sampling: Sampling, scores: pd.DataFrame, absent: Iterable[tuple[str, str]]
) -> dict[str, Looked]:
    """By metric, what the looks find that the scores of a run allow; the same as while it went on.

    Args:
        spec: What the run computes.
        samples: Its pictures, in the order of the run.
        sampling: What was drawn at random.
        scores: Columns sample, method, metric and value.
        absent: Pairs of a method and a metric that cannot score its maps.
    """
    looks = RunLooks(spec, samples, sampling)
    unscored: dict[str, set[str]] = {}
    for method, metric in absent:
        unscored.setdefault(metric, set()).add(method)
    looked = {}
    by_metric = dict(iter(scores.groupby("metric", sort=False)))
    for metric in looks.tests:
        computed = by_metric.get(metric, scores.head(0))
        while looks.next_size(metric) and looks.look(metric, computed, unscored.get(metric, ())):
            pass
        looked[metric] = looks.tests[metric].result()
    return looked


def _computed(scores: pd.DataFrame, names: Sequence[str], labels: Sequence[str], absent: set[str]) -> np.ndarray:
    done = np.zeros((len(names), len(labels)), dtype=bool)
    rows = pd.Index(names).get_indexer(pd.Index(scores["sample"]))
    columns = pd.Index(list(labels)).get_indexer(pd.Index(scores["method"]))
    done[rows[columns >= 0], columns[columns >= 0]] = True
    done[:, [column for column, label in enumerate(labels) if label in absent]] = True
    return done
