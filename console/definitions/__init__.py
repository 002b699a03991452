"""Pages that every kind of definition has: versions, their differences, and the editor."""
