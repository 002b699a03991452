"""What all requests and responses have: connections, headers, tokens, static files, streams, downloads."""
