"""The catalogue: what can be named on the command line, read from a file that is generated from the decorators."""
