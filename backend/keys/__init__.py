"""API keys: their contract, their mirror on the edges, and what was done with them."""
