"""Files that people give runs: staged until a start takes them, and removed where none does."""
