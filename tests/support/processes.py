"""Commands that serve, started as an operator starts them."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.support.service import COMMAND
from tests.support.wire import Address

FREE = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
START_SECONDS = 60


@contextmanager
def served(
    *arguments: str, log: IO[bytes] | None = None, **variables: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A serving process and its first line; it is killed in the end where a test left it running."""
    process = subprocess.Popen(
        [COMMAND, *arguments],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        encoding="utf-8",
    )
    assert process.stdout
    try:
        yield process, process.stdout.readline().rstrip("\n")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


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
