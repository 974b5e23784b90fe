"""Published tables beside measured ones: a paper's protocol on any model and images, and whether its findings hold."""

from snellen.reproduce.measured import Comparison as Comparison
from snellen.reproduce.measured import reproduce as reproduce
from snellen.reproduce.tables import PROTOCOLS as PROTOCOLS
