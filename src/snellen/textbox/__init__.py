"""TextBox: scenes and classifiers whose rule is known, so that a map can be right or wrong."""
