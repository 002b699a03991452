"""A serving command in a process of its own, started as an operator starts it."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.planted import watch
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from tests.support.wire import BASE, Address

COMMAND = Path(sys.executable).with_name("workflow-api")


class Part:
    """One `workflow-api serve`, `edge` or `backend`; it can be stopped, killed and started again as it was."""

    def __init__(self, folder: Path, *command: str, variables: Mapping[str, str] | None = None) -> None:
        """Takes the folder for its output; the command gets `--json` in addition."""
        self._said = folder / "stdout"
        self._log = watch(folder / "stderr")
        self._command = command
        self._variables = variables or {}
        self._process: subprocess.Popen[bytes] | None = None
        self.ready: dict[str, Any] = {}
        """Fields of the line that it prints when it is ready."""
        self.start_seconds = LONGEST_WAIT_SECONDS
        """How long a start may take."""

    def start(self) -> None:
        """Starts the command and returns once it is ready."""
        with self._said.open("wb") as said, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, *self._command, "--json"],
                # At the level that logs most: at the end nothing that tests planted may stand in any log.
                env={"WORKFLOW_API_LOG_LEVEL": "debug", **os.environ, **self._variables},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
            )
        self.ready = until(self._said_ready, "the ready line", seconds=self.start_seconds)

    @classmethod
    @contextmanager
    def started(cls, folder: Path, *command: str, variables: Mapping[str, str] | None = None) -> Iterator[Self]:
        """Yields a started process, which is stopped at the end."""
        folder.mkdir(exist_ok=True)
        part = cls(folder, *command, variables=variables)
        try:
            part.start()
            yield part
        finally:
            part.stop()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Asks the process to end and waits for it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=LONGEST_WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Sends the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def ended(self) -> int:
        """Waits for the process to end by itself and returns its exit code."""
        assert self._process is not None
        return self._process.wait(timeout=LONGEST_WAIT_SECONDS)

    def kill(self) -> None:
        """Kills the process without a shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=LONGEST_WAIT_SECONDS)
            self._process = None

    def memory(self) -> int:
        """Returns the resident memory in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def peak_memory(self) -> int:
        """Returns the peak resident memory in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def log(self) -> str:
        """Returns the log so far."""
        return self._log.read_text(errors="replace")

    def _said_ready(self) -> dict[str, Any]:
        """Returns what the command prints when it is ready; empty until then."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"{self._command} ended with {self._process.returncode}:\n{self.log()}")
        said = self._said.read_text()
        ready: dict[str, Any] = json.loads(said) if said.endswith("\n") else {}
        return ready


def address_of(base_address: str) -> Address:
    """Returns host and port of a base address such as `http://127.0.0.1:8080/api/v1`."""
    url = urlsplit(base_address)
    assert (url.scheme, url.path, url.hostname) == ("http", BASE, "127.0.0.1")
    assert url.port is not None
    return "127.0.0.1", url.port


def refused(*arguments: str, code: int = 1, variables: Mapping[str, str] | None = None) -> str:
    """Runs a start that must fail and returns its one line on standard error."""
    ended = subprocess.run(
        [COMMAND, *arguments],
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST_WAIT_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, ""), ended
    (line,) = ended.stderr.splitlines()
    return line
