"""Simulated participants: what is assumed of them, and how they answer, in memory or on the served pages."""
