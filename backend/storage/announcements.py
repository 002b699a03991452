"""Passes the names that durable changes announced on to the listeners of this process."""

import logging
import threading
from collections.abc import Callable, Collection

Listener = Callable[[Collection[str] | None], None]
"""Takes announced names, or None where some may have been missed; it must be quick, and is called from any thread."""

_LOG = logging.getLogger(__name__)


class Listeners:
    """The listeners of one database in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def add(self, listener: Listener) -> bool:
        """Adds a listener; returns whether it is the first."""
        with self._lock:
            first = not self._listeners
            self._listeners = (*self._listeners, listener)
        return first

    def notify(self, names: Collection[str] | None) -> None:
        """Calls every listener."""
        for listener in self._listeners:
            try:
                listener(names)
            except Exception:  # noqa: BLE001 - the change holds all the same
                _LOG.exception("A listener to changes failed")
