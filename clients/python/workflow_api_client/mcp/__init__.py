"""A server of the Model Context Protocol, which offers the workflows of a key as tools; it needs the extra `mcp`."""
