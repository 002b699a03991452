"""Makes the start of a command shorter.

Most of a start is imports. What they make is no garbage, and the collector, which looks through all of it again and
again as it grows, takes a tenth of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def pause_collection() -> None:
    """Lets nobody look for garbage until `resume_collection`."""
    gc.disable()


def resume_collection() -> None:
    """Looks for garbage again, if that was paused, but never through what was made until now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextmanager
def collection_paused() -> Iterator[None]:
    """Lets nobody look for garbage while the context lasts, nor through what was made in it later on."""
    pause_collection()
    try:
        yield
    finally:
        resume_collection()
