"""evaluate() -> Run: the only loop, the store, and the executors."""
