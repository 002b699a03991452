"""The embedded database."""
