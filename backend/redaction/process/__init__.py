"""Redaction in confined child processes."""
