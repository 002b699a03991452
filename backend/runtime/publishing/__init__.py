"""Publishes outputs of runs to knowledge graphs, an optional stage after the last step (docs/knowledge-graphs.md)."""

from backend.runtime.publishing.files import FileSource, PublishFile
from backend.runtime.publishing.publisher import PublicationSuccess, Publisher

__all__ = ["FileSource", "PublicationSuccess", "PublishFile", "Publisher"]
