"""Engines: other ways to compute forward-only passes, which give the same outputs as the eager module up to rounding."""
