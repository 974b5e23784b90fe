"""Snellen: the eye test for saliency maps."""

from snellen import methods as methods
from snellen import metrics as metrics
from snellen.classifier import Classifier as Classifier
from snellen.errors import SnellenError as SnellenError
from snellen.images.geometry import Geometry as Geometry
from snellen.maps import fills as fills
from snellen.maps.explainer import case_of as case_of
from snellen.runs import Options as Options
from snellen.runs import Run as Run
from snellen.runs import evaluate as evaluate
from snellen.runs import fit as fit
from snellen.types import Case as Case
from snellen.types import Rng as Rng
from snellen.types import Sample as Sample

__version__ = "0.1.0"
