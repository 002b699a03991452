"""Health probe of a part in a tenth of a second of processor time, with sockets and TLS of the standard library.

Importing gRPC and the command line takes ten times that. Options that this probe does not know, and failures whose
reason takes more to find, are left to `workflow-api health`.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import closing
from typing import Final, NamedTuple

from deploy.failures import CommandError, timed_out, unreachable

HEALTH_PATH: Final = "/api/v1/health"
DEFAULT_GRPC: Final = "127.0.0.1:9090"
SERVING_JSON: Final = '{\n  "serving": true\n}'
"""Success as the command prints it with `--json`."""

_SECONDS: Final = 5.0
_MOST_BYTES: Final = 65_536
_LONGEST_TEXT: Final = 126
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_UNIX: Final = "unix:"
_TLS: Final = ("certificate", "key", "ca", "server_name", "key_password")
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_STREAM: Final = 1
_ACK = _END_STREAM = 1
_END_HEADERS: Final = 4
_CALL: Final = b"/grpc.health.v1.Health/Check"
# An uncompressed message of no bytes: it asks for the service without a name.
_REQUEST: Final = bytes(5)
# A HealthCheckResponse whose status is SERVING.
_SERVING: Final = b"\x00\x00\x00\x00\x02\x08\x01"
_NOT_SERVING: Final = b"\x00\x00\x00\x00\x02\x08\x02"


class _Target(NamedTuple):
    """Target of a probe, an edge at `http` or a backend at `grpc`, and whether success is printed as JSON."""

    http: str | None
    grpc: str
    as_json: bool


def probe(arguments: Sequence[str]) -> str | CommandError | None:
    """Returns the command's output if the part serves, or its failure; None if neither is known."""
    target = _target(arguments)
    if target is None:
        return None
    part = f"edge at {target.http}" if target.http else f"backend at {target.grpc}"
    stopped = CommandError(f"The {part} does not serve.", code="runtime_unreachable")
    try:
        serves = _edge_serves(target.http) if target.http else _backend_serves(target.grpc)
    except ConnectionRefusedError:
        return stopped if target.http else unreachable(target.grpc)
    except TimeoutError:
        return stopped if target.http else timed_out(target.grpc)
    except (OSError, ValueError):
        return None
    if serves:
        return SERVING_JSON if target.as_json else f"The {part} serves."
    return stopped if serves is False else None


def _target(arguments: Sequence[str]) -> _Target | None:
    values = {"--http": "", "--grpc": os.environ.get("WORKFLOW_API_GRPC") or DEFAULT_GRPC}
    as_json, rest = False, list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--json" and not equals:
            as_json = True
        elif name in values and (equals or rest):
            values[name] = value if equals else rest.pop(0)
        else:
            return None
    return _Target(values["--http"] or None, values["--grpc"], as_json)


def _edge_serves(where: str) -> bool | None:
    host, port = _host_and_port(where)
    with socket.create_connection((host, port), timeout=_SECONDS) as connection:
        connection.sendall(f"GET {HEALTH_PATH} HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while len(answer) < _MOST_BYTES and (part := connection.recv(_MOST_BYTES)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return True if head.startswith(b"HTTP/1.1 200 ") and b'"status"' in body else None


def _backend_serves(where: str) -> bool | None:
    tls = _certificate()
    with closing(_connection(where, tls)) as connection:
        connection.sendall(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, _STREAM, _headers(where, secure=bool(tls)))
            + _frame(_DATA, _END_STREAM, _STREAM, _REQUEST)
        )
        return {_SERVING: True, _NOT_SERVING: False}.get(_answer(connection))


def _connection(where: str, tls: dict[str, str]) -> socket.socket:
    if where.startswith(_UNIX):
        local = socket.socket(socket.AF_UNIX)
        local.settimeout(_SECONDS)
        local.connect(where.removeprefix(_UNIX))
        return local
    host, port = _host_and_port(where)
    if not tls and host not in _LOCAL:
        raise ValueError("plain text is for this machine only")
    plain = socket.create_connection((host, port), timeout=_SECONDS)
    if not tls:
        return plain
    if "key_password" in tls:
        raise ValueError("a password may be kept anywhere")
    import ssl

    context = ssl.create_default_context(cafile=tls["ca"])
    # As strict as gRPC's own TLS.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(tls["certificate"], tls["key"])
    return context.wrap_socket(plain, server_hostname=tls.get("server_name", host))


def _certificate() -> dict[str, str]:
    """Returns the given settings below `admin.backend_tls`; empty for plain text."""
    config = os.environ.get("WORKFLOW_API_CONFIG")
    document: object = {}
    if config:
        import tomllib

        with open(config, "rb") as file:  # noqa: PTH123 - without the import of pathlib
            document = tomllib.load(file)
    for name in ("admin", "backend_tls"):
        document = document.get(name, {}) if isinstance(document, dict) else {}
    given = dict(document) if isinstance(document, dict) else {}
    for name in _TLS:
        value = os.environ.get(f"WORKFLOW_API_ADMIN_BACKEND_TLS_{name.upper()}")
        if value is not None:
            given[name] = value
    if given and not {"certificate", "key", "ca"} <= given.keys():
        raise ValueError("a certificate goes with its key and authorities")
    return {name: str(value) for name, value in given.items()}


def _host_and_port(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    return host.strip("[]"), int(port)


def _headers(where: str, *, secure: bool) -> bytes:
    """Returns the fields of the call as HPACK writes them without a table (RFC 7541, 6.1 and 6.2.2)."""
    authority = b"localhost" if where.startswith(_UNIX) else where.encode()
    if len(authority) > _LONGEST_TEXT:
        raise ValueError("the address is too long")
    post_and_scheme = b"\x83\x87" if secure else b"\x83\x86"
    fields = ((b"content-type", b"application/grpc"), (b"te", b"trailers"))
    named = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)
    return post_and_scheme + b"\x04" + _text(_CALL) + b"\x01" + _text(authority) + named


def _text(value: bytes) -> bytes:
    return bytes((len(value),)) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _answer(connection: socket.socket) -> bytes:
    """Returns the answer's data up to its message's length; fewer bytes if it has no message."""
    received, data = b"", b""
    for _ in range(_MOST_BYTES):
        while len(received) < 9 or len(received) < 9 + int.from_bytes(received[:3], "big"):
            part = connection.recv(_MOST_BYTES)
            if not part or len(received) > _MOST_BYTES:
                return data
            received += part
        length = 9 + int.from_bytes(received[:3], "big")
        kind, flags, payload, received = received[3], received[4], received[9:length], received[length:]
        if kind == _SETTINGS and not flags & _ACK:
            connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _DATA:
            data += payload
        if len(data) >= len(_SERVING) or (kind in {_DATA, _HEADERS} and flags & _END_STREAM):
            return data
    return data
