"""Bounds on the connections of servers of HTTP: how many, and how long each may keep the server waiting."""
