"""Workflows and the resources of their steps, in immutable versions: apply, read, compare, restore, delete."""
