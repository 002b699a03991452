"""JSON Schema of manifests, for editors that check files while they are written."""

from typing import Any

from backend.workflows.manifests.kinds import DOCUMENT


def manifest_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of one document of a manifest file.

    It is made from the rules by which manifests are read, and accepts whatever these accept. Rules between fields are
    beyond it, as are the syntax of code and patterns.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Manifest of the Programmatic Workflow API",
        **DOCUMENT.json_schema(),
    }
