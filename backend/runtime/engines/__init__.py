"""Engines execute segments; the tables stay the truth."""
