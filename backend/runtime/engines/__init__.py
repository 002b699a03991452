"""Engines, which execute segments; the state that counts is in the tables."""
