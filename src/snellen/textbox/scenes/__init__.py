"""Synthetic images, the rules about them, and what a right map of each shows."""
