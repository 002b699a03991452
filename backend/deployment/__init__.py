"""The deployment record."""
