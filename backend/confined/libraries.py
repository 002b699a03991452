"""What a confined process may read of the host: the interpreter, its packages and shared libraries, nothing else."""

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PACKAGE_PATHS: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_OUR_PACKAGES: Final = ("backend", "telemetry", "workflow_api")
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
_RESOLVING: Final = ("resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "services", "protocols")
NETWORK_FILES: Final = (
    *(f"/etc/{name}" for name in _RESOLVING),
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)
"""What a process reads to find other machines by name, and to trust them."""


def readable_paths() -> list[str]:
    """Files and folders that every confined process may read."""
    packages = [sysconfig.get_path(name) for name in _PACKAGE_PATHS]
    ours = [location for name in _OUR_PACKAGES for location in _locations(name)]
    return _existing([*_SHARED, *_DEVICES, *packages, str(Path(sys.base_prefix) / "lib"), *ours])


def network_paths() -> list[str]:
    """What a process needs to find other machines by name, and to trust them."""
    return _existing(NETWORK_FILES)


def _locations(package: str) -> Iterable[str]:
    spec = importlib.util.find_spec(package)
    return () if spec is None else spec.submodule_search_locations or ()


def _existing(paths: Iterable[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in paths if Path(path).exists()})
