"""Dispatches queued segments to an engine, ends runs that must end, and deletes expired rows."""
