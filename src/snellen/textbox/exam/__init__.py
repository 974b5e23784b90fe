"""Methods explain networks whose rule is known, and their maps are scored."""
