"""Addresses of servers, as settings and options write them."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UNIX: Final = "unix:"

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")
# The kernel's bound on a socket's path, without the terminating zero.
_MAX_PATH_BYTES: Final = 107


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Returns whether only this machine can reach the server."""
        return self.host in {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """A Unix domain socket, which only its owner can open."""

    path: Path

    def __str__(self) -> str:
        return f"{UNIX}{self.path}"

    @property
    def is_local(self) -> bool:
        """Returns whether only this machine can reach the server."""
        return True


@dataclass(frozen=True, slots=True)
class Addresses:
    """Several servers of the same services, as IP addresses that are all IPv4 or all IPv6."""

    servers: tuple[Address, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.servers))

    @property
    def is_local(self) -> bool:
        """Returns whether only this machine can reach any of the servers."""
        return all(address.is_local for address in self.servers)

    @property
    def target(self) -> str:
        """The gRPC target."""
        return f"ipv{ipaddress.ip_address(self.servers[0].host).version}:{self}"


GrpcAddress = Address | UnixSocket
BackendAddress = GrpcAddress | Addresses

DEFAULT_GRPC: Final = Address("127.0.0.1", 9090)
"""Default address of a backend's gRPC services, for the backend and its clients."""

LOOPBACK_OF_WILDCARD: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The loopback address at which this machine reaches a server that listens on all addresses."""


def address(value: Address | str) -> Address:
    """Reads `HOST:PORT`, as `127.0.0.1:8080` or `[::1]:8080`."""
    if isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return Address(match["host"].strip("[]"), int(match["port"]))


def grpc_address(value: GrpcAddress | str) -> GrpcAddress:
    """Reads `HOST:PORT` or `unix:/path`."""
    if not isinstance(value, str) or not value.startswith(UNIX):
        return value if isinstance(value, UnixSocket) else address(value)
    path = value.removeprefix(UNIX)
    if not path.startswith("/") or "\0" in path or len(path.encode()) > _MAX_PATH_BYTES:
        raise ValueError(f"must be {UNIX} and an absolute path of at most {_MAX_PATH_BYTES} bytes")
    return UnixSocket(Path(path))


def backend_address(value: BackendAddress | str) -> BackendAddress:
    """Reads the address of a backend, or of several as `10.0.0.1:9090,10.0.0.2:9090`."""
    if isinstance(value, Addresses) or not isinstance(value, str) or "," not in value:
        return value if isinstance(value, Addresses) else grpc_address(value)
    each = tuple(address(one.strip()) for one in value.split(","))
    try:
        versions = {ipaddress.ip_address(one.host).version for one in each}
    except ValueError:
        versions = set()
    if len(versions) != 1:
        raise ValueError("must all be IPv4 or all IPv6: 10.0.0.1:9090,10.0.0.2:9090")
    return Addresses(each)
