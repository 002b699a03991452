"""Resuming a run: a new run that reuses the completed steps of one that failed or was cancelled."""
