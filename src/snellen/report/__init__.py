"""Runs as pictures, plots, one HTML page, and a table for the terminal."""

from snellen.charts.pictures import sheet
from snellen.report.page import write_report
from snellen.report.terminal import summary_table

__all__ = ["sheet", "summary_table", "write_report"]
