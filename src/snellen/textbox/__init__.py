"""TextBox: scenes on which the reasoning of a classifier is known, so that a map can be right or wrong."""
