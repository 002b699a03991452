"""The release of the client, which counts apart from the service's: its own interface decides the number."""

__version__ = "1.0.0"
