"""Webhooks: callers are told of changes of their runs (docs/webhooks.md)."""
