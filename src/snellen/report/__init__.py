"""Runs as pictures, plots and one HTML page."""
