"""Checks of PostgreSQL: that it can be reached and allows the connections of this part."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

from cryptography import x509

from backend.common.certificate_expiry import SOON
from backend.common.secrets import SecretError
from deploy.config.secret_references import resolve_database_url
from deploy.doctor.examination import (
    ExaminedPart,
    Finding,
    Outcome,
    ServingPart,
    clock,
    failed,
    not_applicable,
    ok,
    warning,
)
from deploy.doctor.software import needed_parts, schema_check

_CONNECT_SECONDS: Final = 5
_NOTIFICATION_CONNECTIONS: Final = 3
"""Connections besides `backend.database_connections`: two for announcements, one that ends blocking sessions."""
_DBOS_CONNECTIONS: Final = 20
"""Connections of a worker for DBOS."""
_RESERVED: Final = """
SELECT current_setting('superuser_reserved_connections')::int
    + coalesce(current_setting('reserved_connections', true)::int, 0)"""
"""Connections that the service's role cannot have; PostgreSQL 16 has the second setting."""
_CLIENTS: Final = """
SELECT count(*), count(*) FILTER (WHERE (each.usesysid, each.datid) = (ours.usesysid, ours.datid)
    AND each.client_addr IS NOT DISTINCT FROM ours.client_addr)
FROM pg_stat_activity AS each, (SELECT * FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS ours
WHERE each.pid <> ours.pid
    AND coalesce(each.backend_type = 'client backend', each.usesysid IS NOT NULL AND each.datid IS NOT NULL)"""
"""Query of the number of clients' connections, and of those from this machine as the service.

The kind of other roles' connections is hidden from a role without rights on statistics.
"""

_CROWDED: Final = """
SELECT schemaname || '.' || relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables
WHERE n_dead_tup > 10000 AND n_dead_tup > n_live_tup / 2 ORDER BY n_dead_tup DESC LIMIT 10"""
"""Query of tables with more dead rows than autovacuum leaves by its defaults, which are a fifth of the live ones."""

_NAME: Final = "database certificate"
_SECONDS: Final = 5.0
_PORT: Final = "5432"
# A request for TLS: the length of the message, and its code.
_START_TLS: Final = struct.pack("!ii", 8, 80877103)
_ACCEPTED: Final = b"S"
_VERIFYING: Final = frozenset({"verify-ca", "verify-full"})


def check_postgresql(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the database on a server, by reading."""
    try:
        import psycopg
    except ImportError:
        # The check of software reports a missing driver.
        yield not_applicable("database", "The driver of PostgreSQL is not installed.")
        return
    try:
        url = resolve_database_url(examined.settings.backend.database, examined.environment)
    except SecretError as error:
        remedy = "Correct what backend.database refers to, or run this with the variables and files of the service."
        yield failed("database", f"The address cannot be read: {str(error).rstrip('.')}.", remedy)
        return
    try:
        with psycopg.connect(url or "", connect_timeout=_CONNECT_SECONDS, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = on")
            yield from _findings(connection, examined)
    except psycopg.Error as error:
        lines = str(error).strip().splitlines()
        said = lines[0] if lines else type(error).__name__
        yield failed(
            "database", f"PostgreSQL cannot be used: {said}.", "Look at backend.database and the server's log."
        )
    yield from check_server_certificate(url or "")


def check_server_certificate(url: str) -> Iterator[Finding]:
    """Checks the dates of each server's certificate; no finding for servers without one or not reached by TLS."""
    from psycopg.conninfo import conninfo_to_dict

    given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    hosts, ports = given.get("host", "").split(","), given.get("port", _PORT).split(",")
    if given.get("sslmode") == "disable":
        return
    for number, host in enumerate(hosts):
        if not host or host.startswith(("/", "@")):
            continue
        port = ports[number if len(ports) > 1 else 0]
        # The check of the database reports a server that cannot be reached.
        with suppress(OSError, ValueError):
            certificate = _presented_certificate(host, int(port or _PORT))
            if certificate is not None:
                yield _certificate_finding(host, certificate, verified=given.get("sslmode") in _VERIFYING)


def _findings(connection: "psycopg.Connection[tuple[object, ...]]", examined: ExaminedPart) -> Iterator[Finding]:  # type: ignore[name-defined]  # noqa: F821 - imported where it is installed
    def value(query: str) -> str:
        row = connection.execute(query).fetchone()
        return "" if row is None or row[0] is None else str(row[0])

    version = value("SHOW server_version")
    if value("SELECT pg_is_in_recovery()") == "True":
        yield failed("database", f"PostgreSQL {version} is a standby, which takes no change.", "Name the primary.")
        return
    yield ok("database", f"PostgreSQL {version} answers.")
    if value("SELECT to_regclass('alembic_version')"):
        schema = schema_check(value("SELECT version_num FROM alembic_version"))
        yield schema
        if schema.outcome is Outcome.OK:
            yield from needed_parts(partial(_rows, connection))
    else:
        yield not_applicable("schema", "The database is empty; the first start of a backend makes its tables.")
    available = int(value("SHOW max_connections")) - int(value(_RESERVED))
    used, own_connections = (int(str(number)) for number in connection.execute(_CLIENTS).fetchone() or (0, 0))
    needed = _connections(examined)
    # The part may be running already.
    by_others = used - min(own_connections, needed)
    said = f"{by_others} of {available} connections are used by others, and this part takes up to {needed}."
    if available - by_others < needed:
        yield warning("connections", said, "Raise max_connections, or lower backend.database_connections.")
    else:
        yield ok("connections", said)
    if value("SHOW synchronous_commit") == "off":
        yield warning(
            "durability",
            "synchronous_commit is off: what was acknowledged may be lost.",
            "Set synchronous_commit = on.",
        )
    crowded = connection.execute(_CROWDED).fetchall()
    for table, dead, live in crowded:
        yield warning(
            "database space",
            f"Table {table} has {dead:,} dead rows beside {live:,} live ones.",
            "End transactions that are open for long, and let autovacuum run more often or faster.",
        )
    if not crowded:
        yield ok("database space", "Autovacuum keeps up with the changes of every table.")
    yield clock("PostgreSQL", float(value("SELECT extract(epoch FROM clock_timestamp())")))


def _rows(connection: "psycopg.Connection[tuple[object, ...]]", query: str) -> Iterator[tuple[object, ...]]:  # type: ignore[name-defined]  # noqa: F821 - as above
    """Yields the rows of a query as they arrive, because there may be many long ones."""
    with connection.transaction(), connection.cursor("doctor") as cursor:
        yield from cursor.execute(query)


def _connections(examined: ExaminedPart) -> int:
    """Returns the most connections that the part opens."""
    dbos = (
        _DBOS_CONNECTIONS if examined.part is ServingPart.WORKER and examined.settings.runtime.engine == "dbos" else 0
    )
    return examined.settings.backend.database_connections + _NOTIFICATION_CONNECTIONS + dbos


def _presented_certificate(host: str, port: int) -> x509.Certificate | None:
    # The certificate is only examined, not trusted, and nothing is sent.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=_SECONDS) as plain:
        plain.sendall(_START_TLS)
        if plain.recv(1) != _ACCEPTED:
            return None
        with context.wrap_socket(plain, server_hostname=host) as tls:
            presented = tls.getpeercert(binary_form=True)
    return None if presented is None else x509.load_der_x509_certificate(presented)


def _certificate_finding(host: str, certificate: x509.Certificate, *, verified: bool) -> Finding:
    now, ends = datetime.now(UTC), certificate.not_valid_after_utc
    issuer = certificate.issuer.rfc4514_string() or "an authority without a name"
    shown = f"The certificate of PostgreSQL on {host}, issued by {issuer},"
    renew = "Renew it on the server and reload that (`SELECT pg_reload_conf()`)."
    if ends <= now:
        judge = failed if verified else warning
        return judge(_NAME, f"{shown} expired at {ends:%Y-%m-%d %H:%M} UTC.", renew)
    if certificate.not_valid_before_utc > now:
        judge = failed if verified else warning
        return judge(
            _NAME, f"{shown} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on.", "Set the clocks."
        )
    if ends - now < SOON:
        return warning(_NAME, f"{shown} expires at {ends:%Y-%m-%d %H:%M} UTC.", renew)
    return ok(_NAME, f"{shown} is valid until {ends:%Y-%m-%d}.")
