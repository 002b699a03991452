"""Storage: SQL tables and stored objects."""
