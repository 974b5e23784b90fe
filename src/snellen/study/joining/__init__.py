"""A study joined to a run: scores per image, verdicts per method, and whether metrics predict people."""
