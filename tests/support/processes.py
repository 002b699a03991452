"""Commands that serve, started as an operator starts them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.part import COMMAND
from tests.support.planted import leaks, watch

FREE = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


@contextmanager
def served(*arguments: str, log: Path | None = None, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A serving process and its first line; it is killed in the end where a test left it running."""
    with TemporaryDirectory() as folder:
        log = watch(log or Path(folder) / "stderr")
        with log.open("ab") as said:
            process = subprocess.Popen(
                [COMMAND, *arguments],
                env={"WORKFLOW_API_LOG_LEVEL": "debug", **os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                encoding="utf-8",
            )
        assert process.stdout
        try:
            yield process, process.stdout.readline().rstrip("\n")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            sys.stderr.write(log.read_text(errors="replace"))
        assert leaks() == []
