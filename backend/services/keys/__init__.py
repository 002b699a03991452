"""API keys: their administration, the mirror that edges follow, and usage records."""
