"""Rules that describe the values of each entity type."""
