"""Does what the README tells a newcomer first: `make run`, then every call that it prints, pasted into a shell.

Needs only the standard library, so that it runs before anything is installed. Exits 0 when every call worked and the
service stopped cleanly; otherwise says what did not and shows the service's last words.
"""

import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 600  # covers an installation from nothing
QUIET_SECONDS = 2  # the calls have all been printed when nothing follows for so long
CALL_SECONDS = 90
STOP_SECONDS = 30
NOT_YET = {"run_not_terminal", "redaction_pending"}
CURL_HTTP_ERROR = 22  # what `curl --fail` exits with


class SmokeError(Exception):
    """Something a newcomer would have stumbled over."""


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

    def printed_calls(self) -> list[str]:
        """Waits for the service to be ready and returns the `export` and `curl` lines it printed."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            calls = list(shell_lines(self.output))
            settled = any(call.startswith("curl ") for call in calls)
            try:
                self.output.append(self._lines.get(timeout=QUIET_SECONDS))
            except queue.Empty:
                if settled:
                    return calls
                if self._make.poll() is not None:
                    raise SmokeError(f"make run ended with status {self._make.returncode}") from None
        raise SmokeError(f"no curl lines within {READY_SECONDS} s")

    def stop(self) -> None:
        """Sends SIGTERM to the service itself and expects it, and so make, to end with status 0."""
        children = Path(f"/proc/{self._make.pid}/task/{self._make.pid}/children").read_text().split()
        if not children:
            raise SmokeError("the service is gone")
        os.kill(int(children[0]), signal.SIGTERM)
        try:
            status = self._make.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise SmokeError(f"still running {STOP_SECONDS} s after SIGTERM") from None
        if status != 0:
            raise SmokeError(f"make run ended with status {status} after SIGTERM")

    def kill(self) -> None:
        """Ends whatever is left of `make run`."""
        if self._make.poll() is None:
            os.killpg(self._make.pid, signal.SIGKILL)
            self._make.wait()

    def last_words(self) -> str:
        """Returns the end of what the service said on standard error."""
        self._log.seek(0)
        return "".join(self._log.readlines()[-40:])

    def _read(self) -> None:
        assert self._make.stdout is not None
        for line in self._make.stdout:
            self._lines.put(line.rstrip("\n"))


class Shell:
    """One bash session, as a person would have one open, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._output = folder.with_suffix(".out")
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # curl's progress
            text=True,
        )

    def run(self, line: str) -> tuple[int, str]:
        """Runs one pasted line; returns its exit status and what it printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{{ {line}\n}} </dev/null >{shlex.quote(str(self._output))}; echo $?\n")
        self._bash.stdin.flush()
        status = self._bash.stdout.readline()
        if not status:
            raise SmokeError("the shell ended at a pasted line")
        return int(status), self._output.read_text(errors="replace")

    def files(self) -> dict[Path, int]:
        """Returns the files in the session's folder with the time each last changed."""
        return {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}

    def close(self) -> None:
        """Ends the session."""
        self._bash.communicate()


def shell_lines(output: list[str]) -> Iterator[str]:
    """Picks the lines to paste: those that begin with `export ` or `curl `, with their continuations."""
    pending = ""
    for line in output:
        if not pending and not line.strip().startswith(("export ", "curl ")):
            continue
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        yield pending
        pending = ""


def call(shell: Shell, line: str) -> None:
    """Pastes one line until its answer is no longer "not yet".

    Raises:
        SmokeError: it failed, printed something other than JSON, or was refused.
    """
    deadline = time.monotonic() + CALL_SECONDS
    while True:
        before = shell.files()
        status, printed = shell.run(line)
        fetched = [path for path, changed in shell.files().items() if before.get(path) != changed]
        problem, retry = judge(status, printed, fetched)
        if not problem:
            return
        if not retry or time.monotonic() > deadline:
            raise SmokeError(f"{address(line)}: {problem}")
        for path in fetched:
            path.unlink()
        time.sleep(0.5)


def judge(status: int, printed: str, fetched: list[Path]) -> tuple[str, bool]:
    """Says what is wrong with an answer, empty when nothing is, and whether asking again may help."""
    if status != 0:
        return f"exit status {status}", status == CURL_HTTP_ERROR
    for path in fetched:
        if path.stat().st_size == 0:
            return f"{path.name} is empty", False
        if path.suffix == ".zip" and not zipfile.is_zipfile(path):
            return judge_json(path.read_text(errors="replace"))
    if not printed.strip():
        return ("", False) if fetched else ("no answer", False)
    # `curl -i` shows the head of the answer first.
    head_shown = printed.startswith("HTTP/")
    return judge_json(printed.replace("\r\n", "\n").partition("\n\n")[2] if head_shown else printed)


def judge_json(text: str) -> tuple[str, bool]:
    """The same for an answer that should be JSON and no error envelope."""
    try:
        answer = json.loads(text)
    except ValueError:
        return f"not JSON: {text[:200]!r}", False
    error = answer.get("error") if isinstance(answer, dict) else None
    if error:
        return f"answered {error}", error.get("code") in NOT_YET
    return "", False


def address(line: str) -> str:
    """Names a call by its address alone, because the rest may hold the key."""
    found = re.search(r"(https?://|\$\w+/)[^\s\"']+", line)
    return found.group() if found else "a call"


def visit(service: Service, shell: Shell) -> None:
    """Pastes all that the service prints, in order, then stops it."""
    for line in service.printed_calls():
        if line.startswith("export "):
            status, _ = shell.run(line)
            if status != 0:
                raise SmokeError(f"an export line ended with status {status}")
        else:
            call(shell, line)
            print(f"ok  {address(line)}")
    service.stop()


def main() -> None:
    """Runs the whole visit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = Service(folder)
        shell = Shell(folder / "shell")
        try:
            visit(service, shell)
        except SmokeError as error:
            print(service.last_words(), file=sys.stderr)
            sys.exit(f"smoke: {error}")
        finally:
            shell.close()
            service.kill()
    print("smoke: make run, its printed calls and a clean stop all work")


if __name__ == "__main__":
    main()
