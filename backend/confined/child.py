"""The program that every confined process runs: it gives up its rights, loads the pool's program, and answers jobs.

Run as `python -I -X utf8 -m backend.confined.child DESCRIPTOR`, with the socket to the pool at that descriptor.
"""

import gc
import importlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from backend.confined import restrictions
from backend.confined.errors import JobFailedError, Kind
from backend.confined.frames import FrameTooLargeError, close_all, encode, receive

_LARGEST_FILE_BYTES: Final = 2 * 2**30
_MOST_OPEN_FILES: Final = 256
_LONGEST_MESSAGE: Final = 1_000


def main(descriptor: int) -> None:
    """Serves jobs until the pool goes away."""
    channel = socket.socket(fileno=descriptor)
    options, _ = receive(channel)
    channel.sendall(encode({"confinement": confine(options)}))
    program = importlib.import_module(options["program"])
    configure = getattr(program, "configure", None)
    if configure is not None:
        configure(options["configuration"], None if options["scratch"] is None else Path(options["scratch"]))
    # Libraries leave very many objects behind, which no collection needs to look at again.
    gc.freeze()
    channel.sendall(encode({"ready": True}))
    while True:
        job, descriptors = receive(channel)
        try:
            channel.sendall(_encoded(_answer(program, job, descriptors)))
        finally:
            close_all(descriptors)


def confine(options: Mapping[str, Any]) -> dict[str, Any]:
    """Gives up the process's rights for good; returns which layers hold, as `ConfinedPool.confinement` does."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE_BYTES, _LARGEST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MOST_OPEN_FILES, _MOST_OPEN_FILES))
    # Writing past RLIMIT_FSIZE then fails with an error instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    restrictions.prctl(restrictions.SET_NO_NEW_PRIVS, 1)
    namespaces = not options["network"] and restrictions.new_namespaces()
    abi = restrictions.landlock_abi()
    if abi:
        restrictions.restrict_files(options["paths"], min(abi, options["newest_abi"]), network=options["network"])
    restrictions.drop_rights(None)
    restrictions.prctl(restrictions.SET_DUMPABLE, 0)
    # A change of rights forgets it.
    restrictions.prctl(restrictions.SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != options["parent"]:
        os._exit(1)
    if options["filter"] is not None:
        restrictions.filter_calls(bytes.fromhex(options["filter"]))
    return {"namespaces": namespaces, "landlock": abi, "filter": options["filter"] is not None}


def _answer(program: ModuleType, job: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
    try:
        return {"result": program.OPERATIONS[job["operation"]](job["arguments"], descriptors)}
    except JobFailedError as error:
        return {"error": Kind.FAILED, "message": str(error)[:_LONGEST_MESSAGE], "data": error.data}
    except MemoryError:
        return {"error": Kind.MEMORY}
    except Exception as error:  # noqa: BLE001 - its words may quote the job's data
        return {"error": Kind.FAILED, "message": f"an unexpected failure ({type(error).__name__})", "data": None}


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return encode(answer)
    except MemoryError:
        return encode({"error": Kind.MEMORY})
    except FrameTooLargeError:
        return encode({"error": Kind.FAILED, "message": "its answer is larger than allowed", "data": None})
    except (ValueError, TypeError, RecursionError):
        return encode({"error": Kind.FAILED, "message": "its answer is not JSON", "data": None})


if __name__ == "__main__":
    with suppress(EOFError, ConnectionError):
        main(int(sys.argv[1]))
