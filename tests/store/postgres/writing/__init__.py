"""Units on their way into a database."""
