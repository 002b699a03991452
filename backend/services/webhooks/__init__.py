"""Webhooks: messages to callers about changes of their runs (docs/webhooks.md)."""
