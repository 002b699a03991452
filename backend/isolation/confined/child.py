"""Entry point of every confined process: drops its rights, loads the pool's program, and answers jobs.

Run as `python -I -X utf8 -m backend.isolation.confined.child DESCRIPTOR`; the descriptor is the socket to the pool.
"""

import gc
import importlib
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

from backend.isolation.confined.confinement import confine
from backend.isolation.confined.frames import (
    FailureKind,
    FrameTooLargeError,
    JobFailedError,
    Message,
    close_all,
    encode,
    receive,
)

_RECURSION_LIMIT: Final = 10_000
_LONGEST_MESSAGE: Final = 1_000


def main(descriptor: int) -> None:
    """Serves jobs until the pool closes the socket."""
    # The contract allows JSON of 1,000 levels, and functions that walk through it recur several times a level.
    sys.setrecursionlimit(_RECURSION_LIMIT)
    channel = socket.socket(fileno=descriptor)
    options, _ = receive(channel)
    channel.sendall(encode({"confinement": confine(options)}))
    program = importlib.import_module(options["program"])
    configure = getattr(program, "configure", None)
    if configure is not None:
        configure(options["configuration"], None if options["scratch"] is None else Path(options["scratch"]))
    # Objects of the libraries live as long as the process, so the garbage collector can skip them.
    gc.freeze()
    channel.sendall(encode({"ready": True}))
    while True:
        job, descriptors = receive(channel)
        try:
            channel.sendall(_encoded(_answer(program, job, descriptors)))
        finally:
            close_all(descriptors)


def _answer(program: ModuleType, job: Message, descriptors: list[int]) -> Message:
    try:
        return {"result": program.OPERATIONS[job["operation"]](job["arguments"], descriptors)}
    except JobFailedError as error:
        return {"error": FailureKind.FAILED, "message": str(error)[:_LONGEST_MESSAGE], "data": error.data}
    except MemoryError:
        return {"error": FailureKind.MEMORY}
    except Exception as error:  # noqa: BLE001 - its text may quote the job's data
        return {"error": FailureKind.FAILED, "message": f"an unexpected failure ({type(error).__name__})", "data": None}


def _encoded(answer: Message) -> bytes:
    try:
        return encode(answer)
    except MemoryError:
        return encode({"error": FailureKind.MEMORY})
    except FrameTooLargeError:
        return encode({"error": FailureKind.TOO_LARGE})
    except (ValueError, TypeError, RecursionError):
        return encode({"error": FailureKind.FAILED, "message": "its answer is not JSON", "data": None})


if __name__ == "__main__":
    with suppress(EOFError, ConnectionError):
        main(int(sys.argv[1]))
