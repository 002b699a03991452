"""Endings of files that can be published to a knowledge graph."""

from typing import Final

RDF_ENDINGS: Final = (".ttl", ".nt", ".nq", ".trig", ".jsonld")
ROW_ENDINGS: Final = (".csv", ".jsonl")
