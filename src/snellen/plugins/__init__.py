"""How methods, metrics, fills and conditions are declared, named, found and checked."""
