"""Constants of manifests: kinds of resources, the default environment, and suffixes of publishable files."""

from collections.abc import Mapping
from typing import Final

from backend.common.json_text import JsonMapping

MOST_OF_A_KIND: Final = 256

MOST_FORM_BYTES: Final = 8_192
"""Most bytes of the values of one approval's form, as JSON."""

RESOURCE_KINDS: Final[Mapping[str, str]] = {
    "Environment": "environment",
    "Connector": "connector",
    "Agent": "agent",
    "KnowledgeGraph": "knowledge_graph",
}
"""Kinds of resources in their table, by kind in manifests."""

MANIFEST_KINDS: Final[Mapping[str, str]] = {kind: manifest_kind for manifest_kind, kind in RESOURCE_KINDS.items()}
"""Kinds of resources in manifests, by kind in their table."""


DEFAULT_ENVIRONMENT: Final[JsonMapping] = {
    "memory_mb": 2_048,
    "timeout_seconds": 900,
    "workspace_mb": 512,
    "network": "none",
    "status": "active",
    "python": None,
    "root": None,
    "variables": {},
}
"""Environment of a step that names no environment or a missing one."""


RDF_ENDINGS: Final = (".ttl", ".nt", ".nq", ".trig", ".jsonld")
ROW_ENDINGS: Final = (".csv", ".jsonl")
