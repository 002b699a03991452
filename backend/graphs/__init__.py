"""Knowledge graphs: where the triples that runs publish rest, and how they are queried. (docs/knowledge-graphs.md)."""
