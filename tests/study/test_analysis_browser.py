"""The page of an analysis in a real Chromium: nothing sticks out, nothing is asked for, and numbers stand where dots do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.study.analysed import study_between, study_within
from tests.study.browsing import Chromium

from snellen.study.analysis import analyse
from snellen.study.analysis.page import write_analysis
from snellen.study.simulation.behaviour import simulate_answers
from snellen.study.simulation.effect import Effect

pytestmark = pytest.mark.browser

ALIGNED = """
() => [...document.querySelectorAll('.strips.pairs')].map(list => {
  const middle = box => box.left + box.width / 2;
  const zero = [...list.querySelectorAll('svg.axis text')].find(one => one.textContent === '0');
  const ticks = [...list.querySelectorAll('svg.strip line.tick')].map(one => middle(one.getBoundingClientRect()));
  return zero && ticks.length ? Math.max(...ticks.map(x => Math.abs(x - middle(zero.getBoundingClientRect())))) : 0;
})
"""
COVERED = """
() => [...document.querySelectorAll('svg.swarm circle')].filter(one => {
  const box = one.getBoundingClientRect(), around = one.ownerSVGElement.getBoundingClientRect();
  return box.left < around.left - 1 || box.right > around.right + 1 || box.bottom > around.bottom + 1;
}).length
"""


@pytest.mark.parametrize("make", [study_between, study_within])
def test_the_page_fits_desks_and_phones(make: object, chromium: Chromium, tmp_path: Path) -> None:
    study = make(tmp_path / "s")  # type: ignore[operator]
    written = write_analysis(analyse(study, simulate_answers(study, 30, Effect(), seed=1)), tmp_path / "out")[0]
    for width in (1280, 390, 320):
        page = chromium.browser.new_page(viewport={"width": width, "height": 900})
        events: list[str] = []
        page.on("console", lambda message, events=events: events.append(message.text))
        page.on(
            "request",
            lambda request, events=events: events.append(request.url) if not request.url.startswith("file:") else None,
        )
        page.goto(written.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert max(page.evaluate(ALIGNED)) < 1.5
        assert page.evaluate(COVERED) == 0
        assert events == []
        page.close()
