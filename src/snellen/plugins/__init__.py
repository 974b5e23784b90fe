"""How methods, metrics, fills and conditions are declared, registered, written as text and checked."""
