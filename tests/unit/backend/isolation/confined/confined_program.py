"""A program for confined processes that reports, and tries, what they may do."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from backend.isolation.confined import JobFailedError

_configured: dict[str, Any] = {}


def configure(configuration: Any, scratch: Path | None) -> None:
    _configured.update(configuration=configuration, scratch=scratch)


def _echo(arguments: Any, _: Sequence[int]) -> Any:
    return arguments


def _configuration(_: Any, __: Sequence[int]) -> Any:
    return _configured["configuration"]


def _spin(_: Any, __: Sequence[int]) -> Any:
    while True:
        pass


def _spin_in_threads(_: Any, __: Sequence[int]) -> Any:
    threading.Thread(target=_spin, args=(None, ()), daemon=True).start()
    time.sleep(3600)


def _sleep(seconds: float, _: Sequence[int]) -> Any:
    time.sleep(seconds)


def _allocate(count: int, _: Sequence[int]) -> int:
    return len(bytearray(count))


def _exit(_: Any, __: Sequence[int]) -> Any:
    os._exit(1)


def _fail(message: str, _: Sequence[int]) -> Any:
    raise JobFailedError(message, {"calls": 3})


def _fail_with_data(text: str, _: Sequence[int]) -> Any:
    raise ValueError(text)


def _answer(count: int, _: Sequence[int]) -> str:
    return "a" * count


def _copy_and_exit(_: Any, descriptors: Sequence[int]) -> Any:
    os.write(descriptors[1], b"<" + os.read(descriptors[0], 1_000) + b">")
    os._exit(1)


def _wait_for_content(_: Any, descriptors: Sequence[int]) -> None:
    while not os.pread(descriptors[0], 1, 0):
        time.sleep(0.01)


def _read(_: Any, descriptors: Sequence[int]) -> str:
    return os.read(descriptors[0], 1_000).decode()


def _write_scratch(_: Any, __: Sequence[int]) -> list[str]:
    folder = _configured["scratch"]
    before = [path.name for path in folder.iterdir()]
    (folder / "left").write_text("what a job leaves")
    return before


def _spin_after_writing(_: Any, __: Sequence[int]) -> Any:
    _write_scratch(_, __)
    _spin(_, __)


def _pid(_: Any, __: Sequence[int]) -> int:
    return os.getpid()


def _environment(_: Any, __: Sequence[int]) -> dict[str, str]:
    return dict(os.environ)


def _attempts(paths: Mapping[str, str], _: Sequence[int]) -> dict[str, str]:
    """Returns the outcome of each forbidden action: the name of the error, or `allowed`."""
    tries: dict[str, Callable[[], Any]] = {
        "internet socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "unix socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
        "socket pair": socket.socketpair,
        "program": lambda: subprocess.run(["/bin/true"], check=True),
        "fork": os.fork,
        "signal to the parent": lambda: os.kill(os.getppid(), 0),
        "read a file of the host": lambda: Path(paths["file"]).read_bytes(),
        "list a folder of the host": lambda: list(Path(paths["folder"]).iterdir()),
        "write a file of the host": lambda: Path(paths["folder"], "new").write_text("new"),
        "read the parent's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    }
    return {name: _outcome(attempt) for name, attempt in tries.items()}


def _outcome(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "allowed"


def _hostile(kind: str, _: Sequence[int]) -> Any:
    """Sends a malformed answer."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    answers = {
        "not json": (3).to_bytes(4, "big") + b"{a}",
        "a list": (2).to_bytes(4, "big") + b"[]",
        "no answer": (2).to_bytes(4, "big") + b"{}",
        "huge": (2**32 - 1).to_bytes(4, "big"),
        "deep": (200_000).to_bytes(4, "big") + b"[" * 200_000,
        "other types": (26).to_bytes(4, "big") + b'{"error":"failed","message":1,"data":1}'[:26],
    }
    channel.sendall(answers[kind])
    time.sleep(3600)


OPERATIONS = {
    "echo": _echo,
    "configuration": _configuration,
    "spin": _spin,
    "spin in threads": _spin_in_threads,
    "sleep": _sleep,
    "allocate": _allocate,
    "exit": _exit,
    "fail": _fail,
    "fail with data": _fail_with_data,
    "answer": _answer,
    "copy and exit": _copy_and_exit,
    "wait for content": _wait_for_content,
    "read": _read,
    "write scratch": _write_scratch,
    "spin after writing": _spin_after_writing,
    "pid": _pid,
    "environment": _environment,
    "attempts": _attempts,
    "hostile": _hostile,
}
