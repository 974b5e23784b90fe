"""Known answers, one module per family of metrics; each holds a tuple `ANSWERS`, and all are found by themselves."""
