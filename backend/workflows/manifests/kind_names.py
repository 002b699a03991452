"""Names of the kinds of resources, and how many of one kind there may be."""

from collections.abc import Mapping
from typing import Final

MOST_OF_A_KIND: Final = 256

RESOURCE_KINDS: Final[Mapping[str, str]] = {
    "Environment": "environment",
    "Connector": "connector",
    "Agent": "agent",
    "KnowledgeGraph": "knowledge_graph",
}
"""Kinds of resources in their table, by kind in manifests."""

MANIFEST_KINDS: Final[Mapping[str, str]] = {kind: manifest_kind for manifest_kind, kind in RESOURCE_KINDS.items()}
"""Kinds of resources in manifests, by kind in their table."""
