"""Figures of a run for papers show what its page shows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.report.recorded import METHODS, Recorded, metric

from snellen.errors import SnellenError
from snellen.report import curve_figure, score_figure
from snellen.report.page import page
from snellen.verdicts import MINIMUM_IMAGES


def test_the_strips_of_a_metric_are_those_of_the_page_with_their_verdicts(tmp_path):
    n = MINIMUM_IMAGES + 10
    run = Recorded(ids=[f"{number}.jpg" for number in range(n)], metrics=[metric("insertion")])
    rng = np.random.default_rng(0)
    for name, (_, control) in METHODS.items():
        run.values[(name, "insertion")] = rng.normal(0.3 if control else 0.6, 0.05, n)
    figure = score_figure(run, "insertion")
    svg, text = figure.svg(), page(run)
    assert svg.count("● ") == sum(not control for _, control in METHODS.values())
    assert all(shape.chart.inside() in text for shape in figure.shapes if hasattr(shape, "chart"))
    assert figure.save(tmp_path / "insertion.svg").is_file()


def test_the_curves_of_a_metric_have_a_panel_per_method():
    run = Recorded()
    label = next(metric.label for metric in run.record.spec.metrics if run.curves(metric.label))
    svg = curve_figure(run, label).svg()
    assert all(f">{name}</text>" in svg for name, (_, control) in METHODS.items() if not control)


def test_a_metric_that_the_run_lacks_or_that_has_no_curves_is_named():
    run = Recorded(metrics=[metric("sparseness", "minimality")])
    with pytest.raises(SnellenError, match="has no metric 'sparsenes'; did you mean 'sparseness'"):
        score_figure(run, "sparsenes")
    with pytest.raises(SnellenError, match="sparseness has no curves"):
        curve_figure(run, "sparseness")
