"""What a confined process may read of the host: the interpreter, its packages and shared libraries, nothing else."""

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import backend

_PACKAGE_PATHS: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_SHARED: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
_RESOLVING: Final = ("resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "services", "protocols")
_CERTIFICATES: Final = (
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)


def readable_paths() -> list[str]:
    """Files and folders that every confined process may read."""
    packages = [sysconfig.get_path(name) for name in _PACKAGE_PATHS]
    ours = Path(str(backend.__file__)).parent
    return _existing([*_SHARED, *_DEVICES, *packages, str(Path(sys.base_prefix) / "lib"), str(ours)])


def network_paths() -> list[str]:
    """What a process needs to find other machines by name, and to trust them."""
    return _existing([*(f"/etc/{name}" for name in _RESOLVING), *_CERTIFICATES])


def _existing(paths: Iterable[str]) -> list[str]:
    return sorted({os.path.realpath(path) for path in paths if Path(path).exists()})
