"""What a step reads to find and trust other machines, where it may reach the network."""

import os
from pathlib import Path
from typing import Final

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


def readable_files() -> list[tuple[Path, str]]:
    """What a step needs to name and trust other machines, as (where it lies, where the step looks for it)."""
    named = [f"/etc/{name}" for name in _RESOLVING]
    return [(Path(os.path.realpath(path)), path) for path in (*named, *_CERTIFICATES) if Path(path).exists()]
