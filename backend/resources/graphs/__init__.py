"""Knowledge graphs: storage of the triples that runs publish, and queries (docs/knowledge-graphs.md)."""
