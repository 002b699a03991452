"""Search for personal data in texts of any length and in cells, by the rules and by a model."""
