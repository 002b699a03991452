"""Where everything rests: SQL tables and stored objects."""
