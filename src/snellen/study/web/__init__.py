"""A study as web pages, for participants and for the experimenter."""
