"""Writes docs/card-table-a1.md and -a2.md: every method that can explain the digits classifier, in every test.

    python docs/card_tables.py runs/all-methods

A run that is there is gone on with; a new one takes about an hour on two cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

from snellen.cards.card_set import CardSet
from snellen.cards.methodology import measure
from snellen.cards.tables import write_tables
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs import Run
from snellen.runs.progress import Live
from snellen.runs.requirements import split_by_support
from snellen.suite import run_suite, subject
from snellen.textbox.exam.method_list import REDUCED

FOLDER = Path(__file__).parent
NAMES = {"table-a1-methodology.md": "card-table-a1.md", "table-a2-tests.md": "card-table-a2.md"}


def main(out: str) -> None:
    """Runs, or goes on with, the suite of all methods in this folder, and copies its tables here."""
    observer = Live()
    everything = [METHODS.build(name, REDUCED.get(name)) for name in METHODS if not traits(METHODS[name]).control]
    classifier, samples = subject({}, full=True).load(observer)
    able, _ = split_by_support(classifier, everything, classifier.to_inputs(samples[0].image[None]))
    run_suite(subject({"methods": list(map(label, able)), "out": out}, full=True), full=True, observer=observer)
    run = Run(out)
    for table in write_tables(CardSet.of(run, measure(run, observer=observer)), Path(out) / "cards"):
        if table.name in NAMES:
            (FOLDER / NAMES[table.name]).write_text(table.read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
