"""Reading a study: what a referee asks for, computed by statsmodels, scipy and pingouin, and told in words first."""

from snellen.study.analysis.record import Analysis, analyse

__all__ = ["Analysis", "analyse"]
