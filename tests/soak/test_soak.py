"""Soaks short enough for every change: the load passes, leaves nothing, and what leaks beside it is found."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.soak.soak import Extent, run_soak
from tests.soak.stage import SQLITE, Stage
from tests.support.wire import Wire

_EXTENT = Extent(seconds=36, scale=0.15)
_LEAK_SECONDS = 0.2
_ROWS = 20


@contextmanager
def leaking(stage: Stage) -> Iterator[None]:
    """Opens a connection after the other that nobody closes, and adds rows that nobody deletes."""
    ended = threading.Event()

    def leak() -> None:
        with ExitStack() as kept:
            number = 0
            while not ended.wait(_LEAK_SECONDS):
                kept.enter_context(Wire(stage.address))
                number += _ROWS
                rows = ", ".join(f"('leak {number + each}', 1)" for each in range(_ROWS))
                stage.database.change([f"INSERT INTO leak (name, at) VALUES {rows}"])

    stage.database.change(["CREATE TABLE leak (name TEXT PRIMARY KEY, at BIGINT)"])
    thread = threading.Thread(target=leak, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.timeout(600)
def test_a_soak_leaves_nothing_at_rest_and_finds_what_leaks(tmp_path: Path) -> None:
    outcome = run_soak(tmp_path, SQLITE, _EXTENT, leaking)
    assert not outcome.unexpected, str(outcome)
    assert not any(outcome.left.values()), str(outcome)
    grows = {growth.name for growth in outcome.growths if growth.unexplained}
    assert {"serve: open files", "serve: sockets", "rows of leak"} <= grows, str(outcome)
    assert outcome.counts["runs started"]
    assert outcome.code == 1
