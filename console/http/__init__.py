"""Parts of all requests and responses: connections, headers, tokens, static files, streams, downloads."""
