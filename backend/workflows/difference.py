"""Differences between versions of definitions, as people read them."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from backend.workflows.manifests.yaml_writer import yaml_text

_MOST_LINES: Final = 20_000


def difference(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> str:
    """Returns the unified difference of two definitions as YAML, "" if they are equal; `names` stand at its head."""
    old, new = (yaml_text(definition).splitlines(keepends=True) for definition in (before, after))
    if len(old) + len(new) > _MOST_LINES:
        # The time of a comparison may rise with the square of the lines.
        return (
            "" if old == new else f"--- {names[0]}\n+++ {names[1]}\n(over {_MOST_LINES:,} lines, which are not shown)\n"
        )
    return "".join(difflib.unified_diff(old, new, *names))
