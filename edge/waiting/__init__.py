"""Holds answers until something new is there, and streams events as they come."""
