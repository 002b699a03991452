"""Runs the redaction engine in confined child processes."""
