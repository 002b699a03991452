"""`workflow-api health`, which probes of containers run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.authority import BACKEND
from tests.support.certified import IDENTITIES, CertifiedParts

pytestmark = pytest.mark.long

PROBE = "probe.test"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[CertifiedParts]:
    parts = CertifiedParts(tmp_path, IDENTITIES + f'"dns:{PROBE}" = ["grpc.health.v1.Health"]\n')
    parts.certify("admin", parts.trusted.issue(PROBE), parts.trusted.pem)
    try:
        yield parts
    finally:
        parts.stop()


def test_a_probe_needs_no_more_than_the_health_service(parts: CertifiedParts) -> None:
    assert parts.refusal("health")["code"] == "runtime_unreachable"
    parts.backend.start()
    assert parts.done("health") == {"serving": True}
    assert parts.refusal("keys", "list")["code"] == "runtime_error"

    parts.certify("admin", parts.trusted.issue(BACKEND), parts.trusted.pem)
    assert parts.refusal("health")["code"] == "runtime_error", "nobody without that identity"


def test_an_edge_serves_whether_or_not_its_backend_is_there(parts: CertifiedParts) -> None:
    parts.backend.start()
    parts.edge.start()
    address = parts.edge.ready["base_address"].split("/")[2]
    parts.backend.stop()
    assert parts.done("health", "--http", address) == {"serving": True}
    parts.edge.stop()
    assert parts.refusal("health", "--http", address)["code"] == "runtime_unreachable"
