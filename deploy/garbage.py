"""Pauses of the garbage collector, which shorten the start of a command.

Most of a start is imports. Imported objects live as long as the process, and the collector, which examines them again
and again, takes a tenth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def pause_collection() -> None:
    """Disables the garbage collector until `resume_collection`."""
    gc.disable()


def resume_collection() -> None:
    """Enables the collector again if it was paused; it never examines the objects that exist now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Disables the collector within the context; it never examines the objects made there."""
    pause_collection()
    try:
        yield
    finally:
        resume_collection()
