"""`workflow-api health`, which probes of containers run."""

import os
import subprocess
import sys
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


def test_a_probe_that_succeeds_imports_neither_grpc_nor_the_command_line(parts: CertifiedParts) -> None:
    parts.backend.start()
    parts.edge.start()
    address = parts.edge.ready["base_address"].split("/")[2]
    show = "import sys; sys.argv[0] = 'workflow-api'; from deploy.cli import entry\n"
    show += (
        "try:\n    entry.main()\nfinally:\n    print(sorted({'grpc', 'typer', 'google.protobuf'} & sys.modules.keys()))"
    )
    for options in (("--grpc", parts.grpc), ("--http", address)):
        ended = subprocess.run(
            [sys.executable, "-c", show, "health", *options],
            env={**os.environ, "WORKFLOW_API_CONFIG": str(parts.config)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert ended.stdout.splitlines()[0].endswith(" serves.")
        assert ended.stdout.splitlines()[1] == "[]", options


def test_an_edge_serves_whether_or_not_its_backend_is_there(parts: CertifiedParts) -> None:
    parts.backend.start()
    parts.edge.start()
    address = parts.edge.ready["base_address"].split("/")[2]
    parts.backend.stop()
    assert parts.done("health", "--http", address) == {"serving": True}
    parts.edge.stop()
    assert parts.refusal("health", "--http", address)["code"] == "runtime_unreachable"
