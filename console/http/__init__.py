"""HTTP of the console: connections, headers, form tokens, static files, event streams, downloads."""
