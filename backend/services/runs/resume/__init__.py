"""Resuming a run: a new run that reuses the completed steps of a failed or cancelled run."""
