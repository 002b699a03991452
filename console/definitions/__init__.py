"""Pages of all kinds of definitions: versions, their differences, and the editor."""
