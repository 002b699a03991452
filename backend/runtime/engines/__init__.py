"""Engines, which execute segments; the tables, not engines, hold the state of runs."""
