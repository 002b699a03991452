"""Starting a run: parsing, ordered checks, rows, and one transaction."""
