"""`workflow-api health`, which probes of containers run."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

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


def imported_by_a_probe(*options: str, code: int = 0, **variables: str) -> str:
    """Returns what a probe printed, after it has imported neither gRPC nor the command line."""
    show = "import sys; sys.argv[0] = 'workflow-api'; from deploy.cli import entry\n"
    show += (
        "try:\n    entry.main()\nfinally:\n    print(sorted({'grpc', 'typer', 'google.protobuf'} & sys.modules.keys()))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", show, "health", *options],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended
    *printed, imported = ended.stdout.splitlines()
    assert imported == "[]", options
    return "\n".join([*printed, *ended.stderr.splitlines()])


def test_a_probe_imports_neither_grpc_nor_the_command_line(parts: CertifiedParts) -> None:
    parts.backend.start()
    parts.edge.start()
    address = parts.edge.ready["base_address"].split("/")[2]
    for options in (("--grpc", parts.grpc), ("--http", address)):
        assert imported_by_a_probe(*options, WORKFLOW_API_CONFIG=str(parts.config)).endswith(" serves.")
    parts.edge.stop()
    assert imported_by_a_probe("--http", address, code=1) == f"The edge at {address} does not serve."


def test_a_probe_that_nobody_answers_fails_as_every_command_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
        message = f"No backend answers at {nobody}: is `workflow-api serve` running, and is that its gRPC address?"
        assert imported_by_a_probe("--grpc", nobody, code=1) == message
        failure = json.loads(imported_by_a_probe("--json", f"--grpc={nobody}", code=1))
        assert failure == {"error": {"code": "runtime_unreachable", "message": message}}
        mute = f"127.0.0.1:{silent.getsockname()[1]}"
        late = f"The backend at {mute} did not answer in time."
        assert imported_by_a_probe("--grpc", mute, code=1) == late


def test_a_probe_of_a_backend_that_is_not_ready_fails_without_an_import() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    servicer = HealthServicer()
    add_HealthServicer_to_server(servicer, server)
    servicer.set("", HealthCheckResponse.NOT_SERVING)
    address = "127.0.0.1:{}".format(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    try:
        assert imported_by_a_probe("--grpc", address, code=1) == f"The backend at {address} does not serve."
    finally:
        server.stop(None)


def test_an_edge_serves_whether_or_not_its_backend_is_there(parts: CertifiedParts) -> None:
    parts.backend.start()
    parts.edge.start()
    address = parts.edge.ready["base_address"].split("/")[2]
    parts.backend.stop()
    assert parts.done("health", "--http", address) == {"serving": True}
    parts.edge.stop()
    assert parts.refusal("health", "--http", address)["code"] == "runtime_unreachable"
