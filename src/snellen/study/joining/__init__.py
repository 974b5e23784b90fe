"""People's answers beside the metrics of the run: scores per image, verdicts per method, and what metrics knew."""
