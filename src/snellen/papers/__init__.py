"""Published tables beside measured ones: a paper's protocol on any model and images, and whether its findings hold."""

from snellen.papers.comparison import Comparison as Comparison
from snellen.papers.comparison import reproduce as reproduce
from snellen.papers.tables import PROTOCOLS as PROTOCOLS
