"""Outputs of finished runs: the list, the files, the zip, and the redaction manifest."""
