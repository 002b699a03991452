"""Server of the Model Context Protocol that offers the workflows of a key as tools; needs the extra `mcp`."""
