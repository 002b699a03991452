"""Waits for changes of files."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

_SECONDS: Final = 0.2

State = dict[Path, tuple[int, int]]


def changed_files(files: Callable[[], Iterable[Path]], seconds: float = _SECONDS) -> Iterator[State]:
    """Yields the state of files now, and again after each change of one; a file that appears or goes is one, too."""
    seen: State | None = None
    while True:
        state = _state(files())
        if state != seen:
            seen = state
            yield state
        else:
            time.sleep(seconds)


def _state(files: Iterable[Path]) -> State:
    state = {}
    for file in files:
        try:
            found = file.stat()
        except OSError:
            continue
        state[file] = found.st_mtime_ns, found.st_size
    return state
