"""Published tables beside measured ones: a paper's protocol on any model and images, and which of its claims hold."""

from snellen.papers.comparison import TableComparison as TableComparison
from snellen.papers.comparison import reproduce as reproduce
from snellen.papers.tables import TABLES as TABLES
