"""Settings: sources, checks, and what they must hold together."""
