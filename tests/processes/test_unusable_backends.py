"""Edges beside a backend that they cannot call: of another contract, or with an expired certificate."""

from pathlib import Path

import grpc
import pytest

from tests.support.admin import Admin
from tests.support.authority import BACKEND
from tests.support.certified import CertifiedParts
from tests.support.client import Caller
from tests.support.part import Part, address_of
from tests.support.poll import until
from tests.support.scrape import LISTEN, scrape
from workflow_api.v1.deployment_health_pb2 import GetDeploymentHealthRequest
from workflow_api.v1.deployment_health_pb2_grpc import DeploymentHealthServiceStub

pytestmark = pytest.mark.long

OLDER = """\
import contract.versions as versions
versions.API_VERSION = "2026-01-01"
versions.OWN = versions.Versions(versions.API_VERSION, versions.RELEASE)
"""


def log_of(folder: Path) -> str:
    return (folder / "stderr").read_text(encoding="utf-8")


def test_an_edge_calls_no_backend_of_an_older_contract_and_says_so_and_calls_the_others(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(OLDER)
    ports = ("--grpc", "127.0.0.1:0", "--data")
    current, older, edge = (tmp_path / name for name in ("current", "older", "edge"))
    with (
        Part.started(current, "backend", *ports, str(current / "data")) as good,
        Part.started(
            older, "backend", *ports, str(older / "data"), variables={"PYTHONPATH": str(tmp_path)}
        ) as incompatible,
        Part.started(
            edge,
            *("edge", "--http", "127.0.0.1:0", "--grpc", f"{incompatible.ready['grpc']},{good.ready['grpc']}"),
            variables=LISTEN,
        ) as part,
    ):
        admin = Admin(good.ready["grpc"])
        credentials = admin.create_key()
        caller = Caller(
            address_of(part.ready["base_address"]), credentials.key_id, credentials.key, credentials.external_id
        )
        until(lambda: caller.get("/me").status == 200, "the edge to know the key")
        assert {caller.get("/me").status for _ in range(20)} == {200}
        states = {incompatible.ready["grpc"]: 0, good.ready["grpc"]: 1}

        def compared() -> bool:
            seen = scrape(part.ready["metrics"]).values
            return all(
                seen.get((f"workflow_api_{name}", frozenset({("backend", backend)}))) == state
                for name in ("backend_compatible", "backend_up")
                for backend, state in states.items()
            )

        until(compared, "both versions to be compared")
        problem = f"The backend at {incompatible.ready['grpc']} cannot be called: the backend has release "
        assert log_of(edge).count(problem) == 1
        assert "2026-01-01" in log_of(edge)
        until(lambda: "cannot use this backend" in log_of(older), "the log of the backend")

        def found() -> bool:
            health = DeploymentHealthServiceStub(channel).GetDeploymentHealth(GetDeploymentHealthRequest(), timeout=60)
            return any(incompatible.ready["grpc"] in finding.message for finding in health.findings)

        with grpc.insecure_channel(good.ready["grpc"]) as channel:
            until(found, "the finding")
        admin.close()


def test_an_expired_certificate_is_logged_once_at_both_ends_and_once_that_calls_succeed_again(tmp_path: Path) -> None:
    parts = CertifiedParts(tmp_path)
    try:
        parts.backend.start()
        parts.certify("backend", parts.trusted.issue(BACKEND, days=40 / 86_400), parts.trusted.pem)
        backend, edge = tmp_path / "backend", tmp_path / "edge"
        until(lambda: "The certificate of the backend has expired" in log_of(backend), "the backend's log", seconds=60)
        parts.edge.start()
        problem = f"The backend at {parts.grpc} cannot be called"
        until(lambda: problem in log_of(edge), "the edge's log")
        parts.certify("backend", parts.trusted.issue(BACKEND, days=20), parts.trusted.pem)
        until(lambda: f"The backend at {parts.grpc} can be called again" in log_of(edge), "the recovery", seconds=60)
        until(lambda: "The certificate of the backend was replaced" in log_of(backend), "the other log", seconds=60)
        assert log_of(backend).count("has expired") == 1
        assert log_of(edge).count(problem) == 1
    finally:
        parts.stop()
