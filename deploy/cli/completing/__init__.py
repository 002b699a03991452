"""Completion in shells: what may come next on a command line."""
