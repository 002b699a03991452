"""Commands that serve, started as an operator starts them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.planted import leaks, watch
from tests.support.service import COMMAND
from tests.support.wire import Address

FREE = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
START_SECONDS = 60


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


def refused(*arguments: str, code: int = 1, **variables: str) -> str:
    """What a start that fails says on standard error: one line."""
    ended = subprocess.run(
        [COMMAND, *arguments],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=START_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    (line,) = ended.stderr.splitlines()
    return line


def address_of(base_address: str) -> Address:
    """The host and port of a base address."""
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/api/v1", base_address)
    assert found, base_address
    return "127.0.0.1", int(found[1])
