"""Runs as pictures, plots, one HTML page, and a table for the terminal."""

from snellen.charts.pictures import contact_sheet
from snellen.report.figures import curve_figure, score_figure
from snellen.report.notebook import run_html, run_summary
from snellen.report.page import write_report
from snellen.report.summary_table import summary_table

__all__ = [
    "contact_sheet",
    "curve_figure",
    "run_html",
    "run_summary",
    "score_figure",
    "summary_table",
    "write_report",
]
