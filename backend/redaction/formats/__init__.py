"""Redacts each kind of file in its own way."""
