"""Names that free those of deleted definitions: no definition's own name has a line break."""

from typing import Final

DELETED: Final = "deleted_"
"""Stands before the kind of a deleted resource."""


def deleted_name(name: str, definition_id: str) -> str:
    """Returns the name that a definition has once it is deleted."""
    return f"{name}\n{definition_id}"


def former_name(name: str) -> str:
    """Returns the name that a deleted definition had."""
    return name.partition("\n")[0]
