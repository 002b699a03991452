"""Rights of a confined process, and how it drops the others."""

import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from backend.confined import bpf, libraries, restrictions
from backend.confined.syscall_rules import confined_process_rules

_NEWEST_ABI: Final = 6
_LARGEST_FILE_BYTES: Final = 2 * 2**30
_MAX_OPEN_FILES: Final = 256


def confinement(
    parent: int, *, readable: Sequence[Path] = (), own: Sequence[Path] = (), network: bool = False
) -> dict[str, Any]:
    """Returns options for `confine`, as JSON.

    Args:
        parent: The process whose end ends the confined one.
        readable: Folders that it may read besides the interpreter and its packages.
        own: Folders that it may read and write.
        network: Whether it may open connections to other machines.
    """
    read = [*libraries.readable_paths(), *map(str, readable), *(libraries.network_paths() if network else ())]
    try:
        system_calls = bpf.assemble(confined_process_rules(network=network)).hex()
    except bpf.UnsupportedProcessorError:
        system_calls = None
    return {
        "parent": parent,
        "network": network,
        "paths": {"read": read, "own": list(map(str, own))},
        "filter": system_calls,
    }


def confine(options: Mapping[str, Any]) -> dict[str, Any]:
    """Drops the rights of the calling process for good; returns the layers in force as `ConfinedPool.confinement` does.

    `options` are those of `confinement`. The process is killed when the thread that started it ends.

    Raises:
        OSError: a layer that this kernel supports could not be applied.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE_BYTES, _LARGEST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_OPEN_FILES, _MAX_OPEN_FILES))
    # Writing past RLIMIT_FSIZE then fails with an error instead of ending the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    restrictions.prctl(restrictions.SET_NO_NEW_PRIVS, 1)
    namespaces = not options["network"] and restrictions.new_namespaces()
    abi = restrictions.landlock_abi()
    if abi:
        restrictions.restrict_files(options["paths"], min(abi, _NEWEST_ABI), network=options["network"])
    restrictions.drop_rights(None)
    restrictions.prctl(restrictions.SET_DUMPABLE, 0)
    # Changes of rights reset it, so it is set after them.
    restrictions.prctl(restrictions.SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != options["parent"]:
        os._exit(1)
    if options["filter"] is not None:
        restrictions.filter_calls(bytes.fromhex(options["filter"]))
    return {"namespaces": namespaces, "landlock": abi, "filter": options["filter"] is not None}
