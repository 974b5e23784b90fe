"""Variants of a classifier: models made from it, such as randomised, compressed, rewritten or retrained ones."""
