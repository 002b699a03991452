"""Isolation: sandboxes of steps, and confined processes that judge untrusted data within bounds."""
