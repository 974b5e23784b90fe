"""The analysis of a study, by statsmodels, scipy and pingouin; its page states the results in sentences first."""

from snellen.study.analysis.analyse import Analysis, analyse

__all__ = ["Analysis", "analyse"]
