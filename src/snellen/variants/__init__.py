"""Other models of the same kind as the classifier: rewritten, randomised, compressed, retrained."""
