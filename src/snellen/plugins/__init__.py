"""How methods, metrics, fills and conditions are declared, registered, written as text and checked."""

ENTRY_POINTS = "snellen.plugins"
"""The group of entry points through which other packages add plug-ins."""
