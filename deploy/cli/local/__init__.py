"""Runs of `workflow-api run`: a workflow in a file, in a temporary deployment."""
