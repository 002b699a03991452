"""Runs uv in a process of its own, within bounds of time, size and network, and without the service's environment."""

import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from uv import find_uv_bin

from backend.isolation.confined import confinement, syscall_filter
from backend.isolation.confined.syscall_filter import program_rules
from backend.resources.environments.lock import LARGEST_LOCK_BYTES, MOST_PACKAGES, Lock, PackagesError
from backend.settings import PackageSettings

MEBIBYTE: Final = 2**20
LONGEST_MESSAGE: Final = 1_500
_POLL_SECONDS: Final = 0.2
_LARGEST_OUTPUT_BYTES: Final = 16 * MEBIBYTE
_MOST_INSTALLERS: Final = 4
_COMMON: Final = ("--no-config", "--no-progress", "--color", "never", "--no-python-downloads")
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]*@")
_PATH_TOKEN: Final = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_~.-]{16,}")
"""A part of an index's path that is long enough to be a token, as some indexes have in their paths."""
_OUT_OF_MEMORY: Final = re.compile(
    r"memory allocation of \d+ bytes failed|failed to spawn thread|Cannot allocate memory|MemoryError"
)
_ENDED_BY_MEMORY: Final = (-signal.SIGABRT, -signal.SIGSEGV)
"""Signals by which a process that cannot allocate memory ends itself."""
_SHORTEST_SECRET: Final = 8
_PROGRESS: Final = ("Using ", "Resolved ", "Prepared ", "Downloading ", "Downloaded ")
_CAUSE: Final = re.compile(r"\s*\bcause:\s*")

# Bytes that resolving may download: descriptions of packages, and wheels that an index does not describe.
_MOST_BYTES: Final = 512 * MEBIBYTE
_COMMAND: Final = ("compile", "-", "--generate-hashes", "--only-binary", ":all:", "--no-annotate", "--no-header")
_WITHOUT_ADDRESSES: Final = ("--no-emit-index-url", "--no-emit-find-links")


class Uv:
    """Runs one command of uv at a time for each caller. Thread-safe.

    `python` returns the interpreter that packages are for. Commands see nothing of the machine but that
    interpreter, the shared libraries, the folder of wheels, and the folders that they are given to write to.
    """

    def __init__(self, settings: PackageSettings, python: Callable[[], Path]) -> None:
        self._settings = settings
        self._python = python
        self._closed = threading.Event()

    def close(self) -> None:
        """Ends every command that still runs; each then raises PackagesError."""
        self._closed.set()

    def run(
        self,
        command: Sequence[str],
        *,
        text: str,
        own: Path,
        seconds: float,
        most_bytes: int,
        log: Callable[[str], None] | None = None,
    ) -> str:
        """Runs a command of `uv pip` with `text` as its input, and returns its output.

        Args:
            command: Arguments after `uv pip`.
            text: Standard input of the command.
            own: The only folder that the command may write to; must exist, and counts against `most_bytes`.
            seconds: Most seconds that the command may take.
            most_bytes: Most bytes that the command may write.
            log: Gets the end of the output, without credentials and folders of the machine, also after a failure.

        Raises:
            PackagesError: the command failed, with its own message, or reached a bound.
        """
        if not self._settings.available:
            raise PackagesError("no package index and no folder of wheels is set (packages.index_url, packages.wheels)")
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
            given.write(text.encode())
            given.seek(0)
            process = subprocess.Popen(
                self._argv(command, own, seconds, most_bytes),
                stdin=given,
                stdout=printed,
                stderr=said,
                cwd=own,
                env=self._environment(own),
            )
            try:
                bound = self._wait(process, own, seconds, most_bytes)
            finally:
                _kill(process)
            if log is not None:
                log(self._shown(_tail(said), own))
            if bound is not None:
                raise PackagesError(bound)
            if process.returncode != 0:
                output = _tail(said)
                if process.returncode in _ENDED_BY_MEMORY or _OUT_OF_MEMORY.search(output):
                    most = f"{self._settings.memory_mb:,} MB"
                    raise PackagesError(f"it needed more than {most} of memory (packages.memory_mb)")
                raise PackagesError(self._message(output, process.returncode, own))
            printed.seek(0)
            return printed.read(_LARGEST_OUTPUT_BYTES).decode(errors="replace")

    def _argv(self, command: Sequence[str], own: Path, seconds: float, most_bytes: int) -> list[str]:
        uv = os.path.realpath(find_uv_bin())
        settings = self._settings
        words = [uv, "pip", *command, *_COMMON, "--cache-dir", str(own / "cache"), "--python", str(self._python())]
        if settings.wheels is not None:
            words += ["--find-links", str(settings.wheels)]
        if not settings.network:
            words += ["--no-index", "--offline"]
        elif (paths := ssl.get_default_verify_paths()).cafile or paths.capath:
            # A private index may have a certificate that only the machine trusts.
            words.append("--system-certs")
        try:
            system_calls = syscall_filter.assemble(program_rules(network=settings.network)).hex()
        except syscall_filter.UnsupportedProcessorError:
            system_calls = None
        options = {
            "parent": os.getpid(),
            "network": settings.network,
            "bytes": most_bytes,
            "memory_bytes": settings.memory_mb * MEBIBYTE,
            "cpu_seconds": int(seconds) * (os.cpu_count() or 1) + 1,
            "paths": self._paths(uv, own),
            "filter": system_calls,
        }
        program = [sys.executable, "-I", "-X", "utf8", "-m", "backend.resources.environments.confined_uv"]
        return [*program, json.dumps(options), *words]

    def _paths(self, uv: str, own: Path) -> dict[str, list[str]]:
        python = self._python()
        run = ["/usr/bin", "/usr/lib", "/lib", "/lib64", str(python), str(python.parent.parent / "lib"), uv]
        read = [*confinement.readable_paths(), *(confinement.network_paths() if self._settings.network else ())]
        if self._settings.wheels is not None:
            read.append(str(self._settings.wheels))
        use = [device for device in ("/dev/null", "/dev/urandom", "/dev/random") if Path(device).exists()]
        return {
            "run": sorted({os.path.realpath(path) for path in run if Path(path).exists()}),
            "read": [*read, "/proc"],
            "use": use,
            "own": [str(own)],
        }

    def _environment(self, own: Path) -> dict[str, str]:
        """Returns all variables of the process: none from the service, and no secrets but the indexes' credentials."""
        variables = {
            "HOME": str(own),
            "LANG": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(own),
            "UV_CONCURRENT_DOWNLOADS": "4",
            # Bounds the threads, so that the process does not need more memory on machines with more processors.
            "UV_CONCURRENT_INSTALLS": str(min(_MOST_INSTALLERS, os.cpu_count() or 1)),
            "UV_NO_ENV_FILE": "1",
            "UV_KEYRING_PROVIDER": "disabled",
        }
        if self._settings.index_url:
            variables["UV_DEFAULT_INDEX"] = self._settings.index_url
        elif self._settings.extra_index_url:
            variables["UV_DEFAULT_INDEX"] = self._settings.extra_index_url
        if self._settings.index_url and self._settings.extra_index_url:
            variables["UV_INDEX"] = self._settings.extra_index_url
        return variables

    def _wait(self, process: "subprocess.Popen[bytes]", own: Path, seconds: float, most_bytes: int) -> str | None:
        """Waits for the end of the process; returns the bound that it reached, or None."""
        deadline = time.monotonic() + seconds
        next_count = 0.0
        too_long = f"it took longer than {seconds:g} seconds"
        too_much = f"it wrote more than {most_bytes // MEBIBYTE:,} MB (packages.unpacked_mb)"
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_SECONDS)
                if time.monotonic() > deadline:
                    return too_long
                return too_much if bytes_below(own) > most_bytes else None
            now = time.monotonic()
            if self._closed.is_set():
                return "the service is being stopped"
            if now > deadline:
                return too_long
            if now >= next_count:
                if bytes_below(own) > most_bytes:
                    return too_much
                # The pause bounds the counting to a tenth of a core.
                next_count = time.monotonic() + 10 * (time.monotonic() - now)

    def _message(self, said: str, status: int, own: Path) -> str:
        """Returns the failure in one line, without hints on options, credentials and folders of the machine."""
        text, _, hints = said.partition("\nhint:")
        # Other hints are options of uv, which nobody can give it here.
        text += "".join(hint for hint in hints.split("\nhint:") if "index URL" in hint.partition("\n")[0])
        lines = [line.strip() for line in text.splitlines()]
        message = " ".join(line for line in lines if line and not line.startswith(_PROGRESS))
        message = _CAUSE.sub(": ", message.removeprefix("error: "))
        # The message is also a reason that callers of the public API read.
        return self._shown(message, own)[:LONGEST_MESSAGE] or f"uv ended with status {status}"

    def _shown(self, text: str, own: Path) -> str:
        """Returns a text without credentials and folders of the machine."""
        text = _CREDENTIALS.sub("", text).replace("\x00", "\N{REPLACEMENT CHARACTER}")
        for url in (self._settings.index_url, self._settings.extra_index_url):
            for secret in _secrets_of(url or ""):
                text = text.replace(secret, "[secret]")
        for folder in (own, self._settings.wheels):
            if folder is not None:
                text = text.replace(str(folder), folder.name)
        return text


def bytes_below(folder: Path) -> int:
    """Returns the bytes that a folder takes on the disk; a file with several names counts once."""
    total, seen = 0, set[int]()
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if status.st_ino not in seen:
                        seen.add(status.st_ino)
                        total += status.st_blocks * 512
    return total


def _secrets_of(url: str) -> Iterator[str]:
    """Yields the secrets of an index's address: its password, its user, and tokens in its path."""
    parts = urlsplit(url)
    if parts.password:
        yield from (parts.password, unquote(parts.password))
    values = [parts.username or "", *(value for _, value in parse_qsl(parts.query))]
    yield from (value for value in values if len(value) >= _SHORTEST_SECRET)
    yield from (part for part in parts.path.split("/") if _PATH_TOKEN.fullmatch(part))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends the process with all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()


def _tail(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 64 * 1024))
    return file.read().decode(errors="replace")


def resolve(uv: Uv, settings: PackageSettings, requirements: Sequence[str], scratch: Path) -> Lock:
    """Returns the newest packages that satisfy the requirements and one another, as wheels for this interpreter.

    Raises:
        PackagesError: no packages satisfy them, with the resolver's message, or too many are needed.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resolve-", dir=scratch) as own:
        text = uv.run(
            (*_COMMAND, *_WITHOUT_ADDRESSES),
            text="".join(f"{one}\n" for one in requirements),
            own=Path(own),
            seconds=settings.resolve_seconds,
            most_bytes=_MOST_BYTES,
        )
    lock = Lock(text)
    if len(text.encode()) > LARGEST_LOCK_BYTES:
        raise PackagesError(f"the lock has more than {LARGEST_LOCK_BYTES:,} bytes")
    if len(lock.versions) > MOST_PACKAGES:
        raise PackagesError(f"{len(lock.versions):,} packages are needed, and at most {MOST_PACKAGES:,} are allowed")
    return lock
