"""The release of the client."""

__version__ = "1.0.139"
