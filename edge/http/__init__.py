"""HTTP/1.1 server: listening socket, connections, parsing, limits, writing."""
