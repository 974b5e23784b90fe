"""How the database came to have its tables, step by step; `Store.open` takes the steps that are missing."""
