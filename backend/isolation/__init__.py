"""Isolation: sandboxes of steps, and confined processes that work on untrusted data within bounds."""
