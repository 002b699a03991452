"""Search for values in text of any length, by the rules and by a model."""
