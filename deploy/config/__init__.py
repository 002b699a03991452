"""Settings: their sources, checks and defaults."""
