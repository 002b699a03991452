"""Copies inputs of a run in before its steps start."""
