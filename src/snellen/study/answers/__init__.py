"""Answers of participants: stored in a database, exported, and counted."""
