"""Differences between versions of definitions, as people read them."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from backend.workflows.manifests.writer import manifest_value
from backend.workflows.manifests.yaml_writer import yaml_text

_MOST_LINES: Final = 20_000


def manifest_difference(kind: str, before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> str:
    """Returns the same difference of the manifests of two definitions, which may have `uses` beside their fields."""
    return difference(_manifest(kind, before), _manifest(kind, after), names)


def difference(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> str:
    """Returns the unified difference of two definitions as YAML, "" if they are equal; `names` stand at its head."""
    old, new = (yaml_text(definition).splitlines(keepends=True) for definition in (before, after))
    if len(old) + len(new) > _MOST_LINES:
        # The time of a comparison may rise with the square of the lines.
        return (
            "" if old == new else f"--- {names[0]}\n+++ {names[1]}\n(over {_MOST_LINES:,} lines, which are not shown)\n"
        )
    return "".join(difflib.unified_diff(old, new, *names))


def _manifest(kind: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a manifest with what stands for its files, its locked packages and the versions of what it uses."""
    python = definition.get("python") or {}
    beside = {"files": definition.get("files"), "locked": python.get("versions"), "uses": definition.get("uses")}
    return {**manifest_value(kind, definition), **{name: value for name, value in beside.items() if value}}
