"""Backups of the embedded database with its objects, made while the service runs, and their restore."""
