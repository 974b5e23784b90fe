"""Simulated participants: what is assumed about them, and how they answer, in memory or on the served pages."""
