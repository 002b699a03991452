"""Publishes outputs of runs to knowledge graphs, an optional stage after the last step (docs/knowledge-graphs.md)."""

from backend.runtime.publishing.files import PublishFile, Source
from backend.runtime.publishing.publisher import Landed, Publisher

__all__ = ["Landed", "PublishFile", "Publisher", "Source"]
