"""What participants answered: kept in a database, exported, and counted."""
