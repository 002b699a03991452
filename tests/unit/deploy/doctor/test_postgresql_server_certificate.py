"""The certificate of PostgreSQL is judged by its dates, also where the driver refuses it without a reason."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.doctor.examination import Outcome
from deploy.doctor.postgresql import check_server_certificate
from tests.support.authority import Authority

OURS = Authority()
EXPIRED, SOON, LONG = -1, 3, 60


@contextmanager
def presenting(folder: Path, days: float | None) -> Iterator[str]:
    """Yields the address of a server that begins TLS as PostgreSQL does; None: it has no certificate."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                assert connection.recv(8) == bytes.fromhex("0000000804d2162f")
                if days is None:
                    connection.sendall(b"N")
                    return
                issued = OURS.issue("127.0.0.1", days=days).write(folder, OURS.pem)
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(issued / "certificate.pem", issued / "key.pem")
                connection.sendall(b"S")
                with context.wrap_socket(connection, server_side=True) as tls:
                    assert tls.recv(1) == b""

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"postgresql://user:sesame@127.0.0.1:{listening.getsockname()[1]}/workflows"
        thread.join()


@pytest.mark.parametrize(
    ("days", "verified", "outcome"),
    [
        (EXPIRED, "verify-full", Outcome.FAILED),
        (EXPIRED, "require", Outcome.WARNING),
        (SOON, "verify-full", Outcome.WARNING),
        (LONG, "verify-full", Outcome.OK),
    ],
)
def test_a_certificate_is_judged_by_its_dates(days: float, verified: str, outcome: Outcome, tmp_path: Path) -> None:
    with presenting(tmp_path, days) as url:
        (check,) = check_server_certificate(f"{url}?sslmode={verified}")
    assert (check.outcome, "CN=authority" in check.message) == (outcome, True)
    assert outcome is Outcome.OK or "pg_reload_conf" in check.remedy
    assert "sesame" not in repr(check)


def test_a_server_without_a_certificate_or_on_a_socket_is_left_out(tmp_path: Path) -> None:
    with presenting(tmp_path, None) as url:
        assert not list(check_server_certificate(url))
    for address in (
        "postgresql://user@/workflows",
        "postgresql://user@127.0.0.1:1/workflows",
        f"{url}?sslmode=disable",
    ):
        assert not list(check_server_certificate(address))
