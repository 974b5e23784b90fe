"""evaluate() -> Run: the only loop, the store, and the executors."""

from snellen.runs.evaluate import evaluate as evaluate
from snellen.runs.fitting import fit as fit
from snellen.runs.options import Options as Options
from snellen.runs.run import Run as Run
