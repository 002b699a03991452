"""Labels of requests over HTTP in metrics, log lines and spans."""

from typing import Final

OTHER: Final = "other"
"""Stands for paths and methods that are none of the service's: a caller may send any."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def method_of(method: str) -> str:
    """Returns a method as a label."""
    return method if method in _METHODS else OTHER
