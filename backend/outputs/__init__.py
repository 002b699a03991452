"""Outputs: what a finished run gives out."""
