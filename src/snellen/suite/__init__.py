"""The tests of the saliency card on one classifier: Table A2, with numbers, filled in."""

from snellen.suite.grid import Grid as Grid
from snellen.suite.run_suite import run_suite as run_suite
from snellen.suite.run_suite import subject as subject
