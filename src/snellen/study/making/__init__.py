"""Makes a study folder from a run: chooses images, draws maps, and previews the pages of participants."""
