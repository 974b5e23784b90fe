"""A run as the card's Table A2: one row per test, one cell per method, and a reason wherever there is no number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from snellen.charts.verdict_marks import ARROWS
from snellen.report.positive_controls import by_metric, note_of
from snellen.report.readable import Readable
from snellen.runs.people import TaskOutcome
from snellen.runs.record import MethodSpec, MetricSpec
from snellen.suite.card_tests import SHARPNESS, STUDY_TESTS, TESTS, metrics_by_test
from snellen.verdicts import Judgement
from snellen.verdicts.statistics import SummaryRow


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """What one method scored on one test."""

    method: str
    """Its label."""
    control: bool
    verdict: str
    """Empty for controls, and where nothing was run."""
    reason: str
    """Why this verdict, or why nothing was run."""
    mean: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    """Mean and ends of its 95 % interval; NaN where nothing was run."""
    n: int = 0
    """Images with a defined score; people, where people answered."""
    undefined: int = 0
    """Images whose score is NaN."""
    advice: str = ""
    """What would settle an inconclusive verdict."""
    note: str = ""
    """What a reader should know of a pass, such as that rare failures could undo it."""


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """One test and the metric that answers it, with a cell per method."""

    attribute: str
    """Of the saliency card."""
    test: str | None
    """None for a metric beside the card."""
    metric: str | None
    """Its label; the registered name where it was not run; None where no metric answers the test."""
    higher_is_better: bool | None
    """None where nothing was run."""
    summary: str
    """What the metric's number means."""
    reason: str
    """Why no method has a cell; empty where methods have."""
    cells: tuple[GridCell, ...]
    positive: tuple[GridCell, ...] = ()
    """Those of the positive controls, which have no verdict."""
    positive_note: str = ""
    """Which positive controls do not beat the controls."""

    @property
    def title(self) -> str:
        """The test, with the settings of its metric that are not the defaults, or a metric beside the card."""
        _, bracket, settings = str(self.metric or "").partition("(")
        return f"{self.test} ({settings}" if self.test and bracket else str(self.test or self.metric)

    @property
    def arrow(self) -> str:
        """Which way is better; empty where nothing was run."""
        return ARROWS[self.higher_is_better]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All 33 tests in the card's order, then further metrics that were run beside them."""

    run: Readable
    rows: tuple[GridRow, ...]
    methods: tuple[str, ...]
    """Labels of those that are not controls, left-out ones included."""
    controls: tuple[str, ...]
    """Their labels."""
    left_out: Mapping[str, str]
    """By label of a method, why it cannot explain the model."""
    positive: tuple[str, ...] = ()
    """The positive controls: the masks as maps, which no row of a method is compared with."""

    @staticmethod
    def of(run: Readable, *, unmet: Mapping[str, str], left_out: Mapping[str, str]) -> Grid:
        """The table of a run.

        Args:
            run: The run.
            unmet: By name of a metric, why it was not run.
            left_out: By label of a method, why it cannot explain the model.

        """
        spec = run.record.spec
        verdicts = run.verdicts()
        cells = _cells(run, verdicts.summary, verdicts.judgements, left_out)
        positive = _positive_cells(run)
        by_test = {metric.test: metric for metric in reversed(spec.metrics) if metric.test}
        metric_names = metrics_by_test()
        rows = []
        for attribute, tests in TESTS.items():
            for test in tests:
                metric = by_test.get(test)
                rated = _sharpness_ratings(run) if test == SHARPNESS else None
                if metric is not None:
                    rows.append(_row(metric, test, cells[metric.label], positive[metric.label]))
                elif rated is not None:
                    rows.append(_by_people(rated, attribute, test, spec.methods, left_out))
                else:
                    name = metric_names.get(test)
                    reason = STUDY_TESTS.get(test) or unmet.get(
                        name or "", "not requested" if name else "no metric answers it"
                    )
                    rows.append(
                        GridRow(
                            attribute=attribute,
                            test=test,
                            metric=name,
                            higher_is_better=None,
                            summary="",
                            reason=f"not run: {reason}",
                            cells=(),
                        )
                    )
        answering = {metric.label for metric in by_test.values()}
        rows += [
            _row(metric, None, cells[metric.label], positive[metric.label])
            for metric in spec.metrics
            if metric.label not in answering
        ]
        methods = [method.label for method in spec.methods if not method.control]
        controls = tuple(method.label for method in spec.methods if method.control)
        return Grid(
            run=run,
            rows=tuple(rows),
            methods=(*methods, *left_out),
            controls=controls,
            left_out=dict(left_out),
            positive=tuple(control.label for control in spec.positive_controls),
        )

    @property
    def tests(self) -> tuple[GridRow, ...]:
        """The 33 rows of the card."""
        return tuple(row for row in self.rows if row.test)

    @property
    def others(self) -> tuple[GridRow, ...]:
        """Metrics beside the card."""
        return tuple(row for row in self.rows if not row.test)

    @property
    def empty(self) -> tuple[tuple[str, str], ...]:
        """(test, method) of every cell of the card that has neither a number nor a verdict."""
        return tuple(
            (str(row.test), method)
            for row in self.tests
            for method in self.methods
            if not any(cell.method == method and cell.verdict for cell in row.cells)
        )

    def table(self) -> pd.DataFrame:
        """One line per test and method, controls included; positive controls count as controls and say so as the reason."""
        lines: list[dict[str, Any]] = []
        for row in self.rows:
            facts = {"attribute": row.attribute, "test": row.test, "metric": row.metric}
            if not row.cells:
                lines.append({**facts, "reason": row.reason})
            lines += [{**facts, **dataclasses.asdict(cell)} for cell in (*row.cells, *row.positive)]
        names = ["attribute", "test", "metric", "method", "control", "verdict", "mean", "low", "high", "n", "undefined"]
        return pd.DataFrame(lines, columns=[*names, "reason", "advice", "note"])

    def write_csv(self, path: Path) -> Path:
        """Writes the rows of `table` to a file."""
        self.table().to_csv(path, index=False)
        return path


def _sharpness_ratings(run: Readable) -> TaskOutcome | None:
    """How sharp people found the maps, by the study with the most participants; simulated studies do not count."""
    studies = sorted((study for study in run.people() if study.source == "human"), key=lambda study: -study.people)
    return next((outcome for study in studies for outcome in study.outcomes if outcome.kind == "sharpness"), None)


def _by_people(
    outcome: TaskOutcome, attribute: str, test: str, methods: Sequence[MethodSpec], left_out: Mapping[str, str]
) -> GridRow:
    """The row of a test that people answered. A method with several arms has the cell of the first."""
    arms = {arm.method: arm for arm in reversed(outcome.arms)}
    standings = {standing.method: standing for standing in reversed(outcome.standings)}
    cells = []
    for label, control in ((method.label, method.control) for method in methods):
        if label not in arms:
            cells.append(GridCell(method=label, control=control, verdict="", reason="not run: people did not see its maps"))
            continue
        arm, standing = arms[label], standings[label]
        verdict = "" if control else standing.verdict
        cells.append(
            GridCell(
                method=label,
                control=control,
                verdict=verdict,
                reason=standing.reason,
                mean=arm.mean,
                low=arm.low,
                high=arm.high,
                n=arm.people,
                advice=standing.advice,
            )
        )
    return GridRow(
        attribute=attribute,
        test=test,
        metric=f"people:{outcome.name}",
        higher_is_better=outcome.higher_is_better,
        summary=f"People's {outcome.score}; n counts people.",
        reason="",
        cells=_ordered(cells, left_out),
    )


def _row(metric: MetricSpec, test: str | None, cells: Sequence[GridCell], positive: tuple[list[GridCell], str]) -> GridRow:
    return GridRow(
        attribute=metric.attribute,
        test=test,
        metric=metric.label,
        higher_is_better=metric.higher_is_better,
        summary=metric.summary,
        reason="",
        cells=tuple(cells),
        positive=tuple(positive[0]),
        positive_note=positive[1],
    )


def _cells(
    run: Readable, summary: pd.DataFrame, verdicts: Sequence[Judgement], left_out: Mapping[str, str]
) -> dict[str, list[GridCell]]:
    """By metric, one cell per method in the order of the run, then those that were left out."""
    problems = run.problems()
    judged = {(judgement.method, judgement.metric): judgement for judgement in verdicts}
    cells: dict[str, list[GridCell]] = {}
    for row in summary.to_dict("records"):
        key = str(row["method"]), str(row["metric"])
        control, n, undefined = bool(row["control"]), int(row["n"]), int(row["undefined"])
        verdict = "" if control else judged[key].verdict
        reason = "a control, which knows nothing about the model" if control else judged[key].reason
        if not n and undefined:
            reason = f"undefined on every image: {row['reason']}"
        elif not n:
            verdict, reason = "", f"not run: {problems.get(key, 'unfinished')}"
        elif key in problems:
            reason = f"{reason}; some images not run: {problems[key]}"
        judgement = None if control else judged[key]
        cells.setdefault(key[1], []).append(
            GridCell(
                method=key[0],
                control=control,
                verdict=verdict,
                reason=reason,
                mean=float(row["mean"]),
                low=float(row["low"]),
                high=float(row["high"]),
                n=n,
                undefined=undefined,
                advice=judgement.advice if judgement else "",
                note=judgement.note if judgement else "",
            )
        )
    return {metric: list(_ordered(column, left_out)) for metric, column in cells.items()}


def _positive_cells(run: Readable) -> dict[str, tuple[list[GridCell], str]]:
    """By metric, a cell per positive control, and which of them do not beat the controls."""
    problems = run.problems()
    return {
        metric: ([_positive_cell(control.row, problems) for control in controls], note_of(controls))
        for metric, controls in by_metric(run).items()
    }


def _positive_cell(row: SummaryRow, problems: Mapping[tuple[str, str], str]) -> GridCell:
    reason = "a positive control: the masks themselves as maps"
    if not row.n:
        why = problems.get((row.method, row.metric), "unfinished")
        reason = f"undefined on every image: {row.reason}" if row.undefined else f"not run: {why}"
    return GridCell(
        method=row.method,
        control=True,
        verdict="",
        reason=reason,
        mean=float(row.mean),
        low=float(row.low),
        high=float(row.high),
        n=row.n,
        undefined=row.undefined,
    )


def _ordered(cells: Sequence[GridCell], left_out: Mapping[str, str]) -> tuple[GridCell, ...]:
    """Methods, then those that were left out, then controls."""
    absent = (
        GridCell(method=method, control=False, verdict="", reason=f"not run: {reason}")
        for method, reason in left_out.items()
    )
    return (*(cell for cell in cells if not cell.control), *absent, *(cell for cell in cells if cell.control))
