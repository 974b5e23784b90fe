"""The tests of the saliency card on one classifier: Table A2, with numbers, filled in."""

from snellen.suite.battery import run_suite as run_suite
from snellen.suite.battery import subject as subject
from snellen.suite.grid import Grid as Grid
