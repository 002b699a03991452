"""Texts that several kinds of manifests have: names, handles of steps, and prose."""

import re
from typing import Final

from backend.workflows.manifests.records import Field
from backend.workflows.manifests.shapes import Text

NAME: Final = Text(
    80,
    pattern=re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?"),
    must_be="one line of text without blanks around it",
)
HANDLE: Final = Text(128, pattern=re.compile(r"[a-z0-9-]+"), must_be="lowercase letters, digits and dashes")
LONG_TEXT: Final = Text(100_000)


def name_field(example: str) -> Field:
    """Returns the field with the name of a resource or workflow."""
    return Field(
        NAME, required=True, about="Name, unique within the kind; other documents refer to it.", example=example
    )
