"""Versions that work together, and the names by which channels ask for them."""

import pytest

from contract.routes import BASE
from contract.versions import (
    LIVENESS,
    OLDEST_COMPATIBLE_RELEASE,
    OWN,
    Versions,
    incompatibility,
    liveness_of,
    parse_liveness,
)
from deploy.cli import health_probe
from deploy.config.addresses import DEFAULT_GRPC


@pytest.mark.parametrize(
    ("caller", "backend", "reason"),
    [
        (OWN, OWN, None),
        (OWN._replace(release="1.0.200"), OWN, None),
        (OWN._replace(api_version="2026-09-01"), OWN, None),
        (OWN._replace(api_version="2026-09-25"), OWN, "upgrade it first"),
        (OWN._replace(release="1.0.99"), OWN, f"releases before {OLDEST_COMPATIBLE_RELEASE} are not supported"),
        (OWN, OWN._replace(release="0.9"), "the backend has release 0.9"),
        (OWN, OWN._replace(release="new"), "the backend has no known release"),
    ],
)
def test_a_backend_serves_callers_of_its_contract_or_an_earlier_one_from_a_first_release_on(
    caller: Versions, backend: Versions, reason: str | None
) -> None:
    found = incompatibility(caller, backend)
    assert (found is None) if reason is None else (found is not None and reason in found)


def test_the_name_at_the_health_service_holds_the_versions_of_the_caller() -> None:
    assert parse_liveness(liveness_of(OWN)) == OWN
    assert parse_liveness(LIVENESS) is None
    assert parse_liveness("") is None


def test_a_probe_without_imports_asks_where_the_command_does() -> None:
    assert f"{BASE}/health" == health_probe.HEALTH_PATH
    assert str(DEFAULT_GRPC) == health_probe.DEFAULT_GRPC
