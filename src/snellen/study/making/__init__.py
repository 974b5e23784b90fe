"""From a run to a study folder: which images, how maps are drawn, and what a participant will meet."""
