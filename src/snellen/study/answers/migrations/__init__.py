"""Migrations of the database, step by step; `Database.open` runs those that are missing."""
