"""Paths of the host that a confined process may read: the interpreter, its packages and shared libraries."""

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


def readable_paths() -> list[str]:
    """Returns the files and folders that every confined process may read."""
    packages = [sysconfig.get_path(name) for name in _PACKAGE_PATHS]
    ours = [location for name in _OUR_PACKAGES for location in _locations(name)]
    return _existing([*_SHARED, *_DEVICES, *packages, str(Path(sys.base_prefix) / "lib"), *ours])


def network_paths() -> list[str]:
    """Returns the files that a process with network may read besides."""
    return _existing(NETWORK_FILES)


def _locations(package: str) -> Iterable[str]:
    spec = importlib.util.find_spec(package)
    return () if spec is None else spec.submodule_search_locations or ()


def _existing(paths: Iterable[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in paths if Path(path).exists()})
