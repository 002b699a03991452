"""Parsing and validation of manifest files: YAML text in, definitions or problems out (`loader`)."""
