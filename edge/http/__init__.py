"""HTTP/1.1: listening socket, connections, parsing, limits, writing."""
