"""Follows the README's first steps: `make run`, then the line and the script of calls that it prints.

Needs only the standard library, so that it runs before anything is installed. Exits with 0 when every call succeeded
and the service stopped cleanly; otherwise prints the failure and the end of the service's log.
"""

import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 600  # covers an installation from nothing
PASTE_SECONDS = 240
STOP_SECONDS = 30
# Text that `serve --demo` prints before the line to paste, and before the name of the file with calls.
LINE = "Start a run from another shell:"
CALLS = "The same by curl, with a key: "


class SmokeError(Exception):
    """A step that failed."""


class Service:
    """`make run` as a child process, listening on free ports and keeping its data in `folder`."""

    def __init__(self, folder: Path) -> None:
        arguments = shlex.join(["--data", str(folder / "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
        self._log = (folder / "stderr.log").open("w+")
        self._lines: queue.Queue[str] = queue.Queue()
        self.output: list[str] = []
        self._make = subprocess.Popen(
            ["make", "--no-print-directory", "run", f"ARGS={arguments}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def printed_scripts(self) -> list[str]:
        """Waits until the service is ready; returns the line that it printed, and the calls in the file it named."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.output and self.output[-1].startswith(CALLS):
                line = self.output[self.output.index(LINE) + 1]
                return [line, Path(self.output[-1].removeprefix(CALLS)).read_text(encoding="utf-8")]
            try:
                self.output.append(self._lines.get(timeout=1))
            except queue.Empty:
                if self._make.poll() is not None:
                    raise SmokeError(f"make run ended with status {self._make.returncode}") from None
        raise SmokeError(f"nothing to paste within {READY_SECONDS} s")

    def stop(self) -> None:
        """Sends SIGTERM to the service, after which service and make must end with status 0."""
        children = Path(f"/proc/{self._make.pid}/task/{self._make.pid}/children").read_text().split()
        if not children:
            raise SmokeError("the service has exited")
        os.kill(int(children[0]), signal.SIGTERM)
        try:
            status = self._make.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise SmokeError(f"still running {STOP_SECONDS} s after SIGTERM") from None
        if status != 0:
            raise SmokeError(f"make run ended with status {status} after SIGTERM")

    def kill(self) -> None:
        """Kills the remaining processes of `make run`."""
        if self._make.poll() is None:
            os.killpg(self._make.pid, signal.SIGKILL)
            self._make.wait()

    def log_tail(self) -> str:
        """Returns the end of the service's log."""
        self._log.seek(0)
        return "".join(self._log.readlines()[-40:])

    def _read(self) -> None:
        assert self._make.stdout is not None
        for line in self._make.stdout:
            self._lines.put(line.rstrip("\n"))


def paste(script: str, folder: Path) -> None:
    """Runs the script in a shell, up to the first call that fails.

    Raises:
        SmokeError: a call failed.
    """
    folder.mkdir(exist_ok=True)
    try:
        shell = subprocess.run(
            ["bash", "-eo", "pipefail"],
            input=script,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PASTE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SmokeError(f"the pasted calls took longer than {PASTE_SECONDS} s") from None
    if shell.returncode != 0:
        raise SmokeError(f"a pasted call ended with status {shell.returncode}: {shell.stdout[-1000:]} {shell.stderr}")
    print(f"ok  {script.count('curl ')} calls, {len(shell.stdout)} characters of answers")


def check_download(folder: Path) -> None:
    """Checks that the calls left a zip.

    Raises:
        SmokeError: there is none.
    """
    if not any(zipfile.is_zipfile(path) for path in folder.iterdir()):
        raise SmokeError("no zip was downloaded")


def main() -> None:
    """Runs all steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = Service(folder)
        try:
            for script in service.printed_scripts():
                paste(script, folder / "shell")
            check_download(folder / "shell")
            service.stop()
        except SmokeError as error:
            print(service.log_tail(), file=sys.stderr)
            sys.exit(f"smoke: {error}")
        finally:
            service.kill()
    print("smoke: make run, its printed calls and a clean stop all work")


if __name__ == "__main__":
    main()
