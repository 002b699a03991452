"""Hands queued segments over to an engine, ends runs that must end, and deletes what is past its time."""
