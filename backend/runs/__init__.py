"""Runs: starts, reads, cancels and erasures."""
