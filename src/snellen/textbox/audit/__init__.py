"""Metrics on trial: how well each orders maps as the known truth does."""
