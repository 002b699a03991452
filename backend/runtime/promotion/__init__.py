"""Stores what steps left: their files as outputs, and the result as one more."""
