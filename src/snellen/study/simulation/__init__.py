"""Simulated people: what is assumed of them, how they answer, alone in memory or on the served pages."""
