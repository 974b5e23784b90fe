"""The audit of metrics: how well each orders maps as the known truth does."""
