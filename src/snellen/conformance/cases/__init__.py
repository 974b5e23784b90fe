"""Reference cases, one module per group of metrics. Each module holds a tuple `CASES`; all modules are loaded."""
