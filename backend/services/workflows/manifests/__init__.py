"""Parsing and validation of manifest files."""
