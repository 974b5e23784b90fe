"""Classifiers and images that are ready to use, each with its licence and checksum."""
