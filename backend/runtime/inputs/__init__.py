"""Copies a run's `s3_prefix` inputs in before its steps start."""
