"""Sweeps a run for personal data by its policy while it is executed, and keeps its redaction manifest."""
