"""Runs a query in a process of its own, with a time limit."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from backend.graphs.graph import Bounds, GraphRefusedError, Part


def run_query(copy: Path, text: str, bounds: Bounds) -> Iterator[Part]:
    """Evaluates a query on the database in `copy`; the process has ended when the iterator ends or is closed.

    Raises:
        GraphRefusedError: the query is not valid, takes too long or needs too much memory.
    """
    limits = (str(bounds.rows), str(bounds.seconds), str(bounds.size_bytes))
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "backend.graphs.query_process", str(copy), *limits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(bounds.seconds, end)
    timer.start()
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        _send(process.stdin, text)
        for line in process.stdout:
            yield _part(json.loads(line))
        if process.wait() != 0:
            raise GraphRefusedError(
                f"it takes longer than {bounds.seconds:g} seconds" if late.is_set() else "it needs too much memory"
            )
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _send(stdin: IO[bytes], text: str) -> None:
    try:
        with stdin:
            stdin.write(text.encode())
    except BrokenPipeError:
        # The process has ended already; its exit code says why.
        pass


def _part(line: dict[str, Any]) -> Part:
    if "refused" in line:
        raise GraphRefusedError(line["refused"])
    return Part(**line)
