"""Studies with people: made from a run, served as web pages, and read together with what metrics say."""
