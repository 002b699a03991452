"""Rights of a confined process: options that describe them, and the function that drops all other rights."""

import importlib.util
import os
import resource
import signal
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from backend.isolation.confined import restrictions, syscall_filter
from backend.isolation.confined.syscall_filter import confined_process_rules

Options = Mapping[str, Any]
"""Rights of a confined process, as JSON that its starter sends it; and the layers in force, as it answers."""

_NEWEST_ABI: Final = 6
_LARGEST_FILE_BYTES: Final = 2 * 2**30
_MAX_OPEN_FILES: Final = 256

_PACKAGE_PATHS: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_OUR_PACKAGES: Final = ("backend", "redaction", "telemetry", "workflow_api")
_SHARED: Final = (
    "/etc/mime.types",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
_RESOLVER_FILES: Final = ("resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "services", "protocols")
NETWORK_FILES: Final = (
    *(f"/etc/{name}" for name in _RESOLVER_FILES),
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)
"""Files for resolving names of machines and for verifying their certificates."""


def confinement(
    parent: int, *, readable: Sequence[Path] = (), own: Sequence[Path] = (), network: bool = False
) -> Options:
    """Returns options for `confine`, as JSON.

    Args:
        parent: The process whose end ends the confined one.
        readable: Folders that it may read besides the interpreter and its packages.
        own: Folders that it may read and write.
        network: Whether it may open connections to other machines.
    """
    read = [*readable_paths(), *map(str, readable), *(network_paths() if network else ())]
    try:
        system_calls = syscall_filter.assemble(confined_process_rules(network=network)).hex()
    except syscall_filter.UnsupportedProcessorError:
        system_calls = None
    return {
        "parent": parent,
        "network": network,
        "paths": {"read": read, "own": list(map(str, own))},
        "filter": system_calls,
    }


def confine(options: Options) -> Options:
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
    # Set after the changes of rights, which reset this signal.
    restrictions.prctl(restrictions.SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != options["parent"]:
        os._exit(1)
    if options["filter"] is not None:
        restrictions.filter_calls(bytes.fromhex(options["filter"]))
    return {"namespaces": namespaces, "landlock": abi, "filter": options["filter"] is not None}


def readable_paths() -> list[str]:
    """Returns the files and folders that every confined process may read."""
    packages = [sysconfig.get_path(name) for name in _PACKAGE_PATHS]
    own_packages = [location for name in _OUR_PACKAGES for location in _locations(name)]
    return _existing([*_SHARED, *_DEVICES, *packages, str(Path(sys.base_prefix) / "lib"), *own_packages])


def network_paths() -> list[str]:
    """Returns the files that a process with network may read as well."""
    return _existing(NETWORK_FILES)


def _locations(package: str) -> Iterable[str]:
    spec = importlib.util.find_spec(package)
    return () if spec is None else spec.submodule_search_locations or ()


def _existing(paths: Iterable[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in paths if Path(path).exists()})
