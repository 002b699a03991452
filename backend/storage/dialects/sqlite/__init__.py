"""SQLite, the embedded database of one process."""
