"""Runs: starts, reads, cancellations and erasures."""
