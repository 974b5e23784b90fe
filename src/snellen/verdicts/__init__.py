"""Statistics: from scores to intervals, comparisons with controls, and the audit of the metrics themselves."""
