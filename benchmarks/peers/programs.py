"""Installs peers into environments of their own, and runs their processes.

A process gets an environment without this user's variables, and so without keys, and a temporary home folder. It has a
session of its own, because some peers leave processes behind: the whole group is ended.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from benchmarks.servers import SERVER_CORE

# Peers are no dependencies of the project, so they stay outside of its folders of code.
FOLDER = Path(__file__).parents[2] / ".peers"
_STARTS_SECONDS = 120.0
_STOPS_SECONDS = 20.0


def install(name: str, requirements: Sequence[str]) -> Path:
    """Installs packages into the environment of a peer, unless they are there; returns its folder of programs."""
    folder, wanted = FOLDER / name, "\n".join(requirements)
    done = folder / "installed"
    if not done.exists() or done.read_text() != wanted:
        print(f"Installing {', '.join(requirements)} into {folder} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(folder),
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, *requirements], check=True)
        done.write_text(wanted)
    return folder / "bin"


def free_port() -> int:
    """Returns a port of the loopback address on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Programs:
    """The programs of one peer, which all run in one folder on the servers' core."""

    bin: Path
    folder: Path
    variables: Mapping[str, str]

    def run(self, *command: str) -> None:
        """Runs a program to its end.

        Raises:
            RuntimeError: it failed; its output is in its log in the folder.
        """
        process = self._started(command)
        if process.wait() != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{self._logs()}")

    def start(self, stack: ExitStack, *command: str) -> "subprocess.Popen[str]":
        """Starts a program, which ends with the stack."""
        process = self._started(command)
        stack.callback(_end, process)
        return process

    def await_answer(self, ask: "Callable[[], dict[str, str]]") -> "dict[str, str]":
        """Returns the first answer of a starting server.

        Raises:
            RuntimeError: there is none; the message has the end of each log.
        """
        deadline = time.monotonic() + _STARTS_SECONDS
        while True:
            try:
                return ask()
            except (URLError, OSError) as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the peer does not answer: {error}\n{self._logs()}") from None
                time.sleep(0.2)

    def _started(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        path = f"{self.bin}{os.pathsep}{os.defpath}"
        with (self.folder / f"{'-'.join(command[:2])}.log").open("ab") as log:
            return subprocess.Popen(
                ["taskset", "-c", str(SERVER_CORE), str(self.bin / command[0]), *command[1:]],
                cwd=self.folder,
                env={"PATH": path, "HOME": str(self.folder), **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))


def _end(process: "subprocess.Popen[str]") -> None:
    """Terminates a process with its group, and kills the processes that remain."""
    process.terminate()
    try:
        process.wait(_STOPS_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
