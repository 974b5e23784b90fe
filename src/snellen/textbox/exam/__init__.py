"""Methods explain networks whose reasoning is known, and their maps are scored."""
