"""Certificates between the parts, each a process of its own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.authority import ADMIN, BACKEND, EDGE, Authority
from tests.support.certified import CertifiedParts
from tests.support.part import refused
from tests.support.poll import until

pytestmark = pytest.mark.long


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[CertifiedParts]:
    parts = CertifiedParts(tmp_path)
    try:
        parts.backend.start()
        yield parts
    finally:
        parts.stop()


def test_edge_and_administrator_reach_the_backend_with_their_certificates(parts: CertifiedParts) -> None:
    parts.edge.start()
    assert parts.caller().get("/runs").json()["items"] == []


def test_a_client_without_a_certificate_of_the_authority_is_refused(parts: CertifiedParts) -> None:
    assert parts.done("keys", "list") == {"items": []}

    other_authority = Authority("second")
    parts.certify("admin", other_authority.issue(ADMIN), parts.trusted.pem)
    assert parts.refusal("keys", "list")["code"] == "runtime_unreachable"

    plain = parts.refusal("keys", "list", WORKFLOW_API_CONFIG="")
    assert plain["code"] == "runtime_unreachable"


def test_a_backend_of_another_authority_or_name_is_not_trusted(parts: CertifiedParts) -> None:
    parts.certify("admin", parts.trusted.issue(ADMIN), Authority("second").pem)
    other_authority = parts.refusal("keys", "list")
    assert other_authority["code"] == "runtime_unreachable"
    assert "CERTIFICATE_VERIFY_FAILED" in other_authority["message"]

    parts.certify("admin", parts.trusted.issue(ADMIN), parts.trusted.pem)
    other_name = parts.refusal("keys", "list", WORKFLOW_API_ADMIN_BACKEND_TLS_SERVER_NAME="other.test")
    assert other_name["code"] == "runtime_unreachable"
    assert "Hostname Verification Check failed" in other_name["message"]


def test_a_certificate_that_expired_is_refused_by_both_sides(parts: CertifiedParts, tmp_path: Path) -> None:
    expired = parts.trusted.issue(ADMIN, days=-1)
    parts.certify("admin", expired, parts.trusted.pem)
    refusal = parts.refusal("keys", "list")
    assert refusal["code"] == "invalid_settings"
    assert "expired" in refusal["message"]

    parts.certify("backend", parts.trusted.issue(BACKEND, days=-1), parts.trusted.pem)
    line = refused("backend", "--config", str(parts.config), "--data", str(tmp_path / "other"))
    assert line.startswith(f"The certificate in {tmp_path}/backend/certificate.pem expired at")


def test_new_certificates_are_used_without_a_restart(parts: CertifiedParts) -> None:
    """An authority is replaced in three moves, and no part is started again."""
    parts.edge.start()
    caller, new = parts.caller(), Authority("second")
    former_admin = parts.trusted.issue(ADMIN)
    names = {"backend": BACKEND, "edge": EDGE, "admin": ADMIN}
    for part in names:
        parts.trust(part, parts.trusted.pem + new.pem)
    assert caller.get("/me").status == 200
    for part, name in names.items():
        parts.certify(part, new.issue(name), parts.trusted.pem + new.pem)
        assert parts.done("keys", "list")["items"]
        assert caller.get("/me").status == 200
    for part in names:
        parts.trust(part, new.pem)
    assert parts.done("keys", "list")["items"]
    assert caller.get("/me").status == 200

    parts.certify("admin", former_admin, new.pem)
    assert parts.refusal("keys", "list")["code"] == "runtime_unreachable"

    # The edge, on a connection of its own making, shows what it has read anew.
    parts.certify("admin", new.issue(ADMIN), new.pem)
    parts.backend.signal(signal.SIGTERM)
    assert parts.backend.ended() == 0
    parts.backend.start()
    until(lambda: caller.get("/me").status == 200, "the edge to be back")
