"""`workflow-api doctor` beside parts that run, and after they have ended."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.authority import EDGE
from tests.support.certified import CertifiedParts
from tests.support.part import COMMAND
from tests.support.service import Service

pytestmark = pytest.mark.long


def doctor(*arguments: str, code: int = 0, **variables: str) -> dict[str, dict[str, Any]]:
    """Runs the command; returns its last check of each name."""
    ended = subprocess.run(
        [COMMAND, "doctor", *arguments, "--json"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, ""), ended
    return {check["name"]: check for check in json.loads(ended.stdout)["checks"]}


def test_a_service_is_examined_while_it_runs_and_when_it_is_down(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    try:
        service.new_caller()
        http = "{}:{}".format(*service.address)
        variables = {"WORKFLOW_API_EDGE_HTTP": http, "WORKFLOW_API_BACKEND_GRPC": service.ready["grpc"]}
        data = ("serve", "--data", service.ready["data"])
        running = doctor(*data, **variables)
        for name in ("settings", "packages", "data folder", "database", "schema", "objects", "edge", "releases"):
            assert running[name]["outcome"] == "ok", running[name]
        assert "is in use" in running["data folder"]["message"]
        assert doctor(*data, "--write-probe", **variables)["objects"]["outcome"] == "ok"
        assert service.call("GET", "/health").status == 200
    finally:
        service.stop()
    down = doctor(*data, **variables)
    assert "is not in use" in down["data folder"]["message"]
    assert (down["service"]["outcome"], down["edge"]["outcome"]) == ("not applicable", "not applicable")


def test_an_edge_with_a_certificate_that_its_backend_refuses_is_found(tmp_path: Path) -> None:
    parts = CertifiedParts(tmp_path)
    try:
        parts.backend.start()
        config = ("--config", str(parts.config))
        assert doctor("backend", *config)["releases"]["outcome"] == "ok"
        assert doctor("edge", *config)["backend"]["outcome"] == "ok"
        parts.certify("edge", parts.trusted.issue(EDGE, days=-1), parts.trusted.pem)
        assert doctor("edge", *config, code=1)["edge.backend_tls"]["outcome"] == "failed"
        parts.certify("admin", parts.trusted.issue("stranger.test"), parts.trusted.pem)
        assert doctor("backend", *config)["service"]["outcome"] == "warning"
        parts.backend.stop()
        assert doctor("console", *config, code=1)["backend"]["outcome"] == "failed"
    finally:
        parts.stop()


def test_settings_that_are_not_valid_are_each_a_line(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('[edge]\nhttp = "x"\nhtpp = "127.0.0.1:1"\n')
    ended = subprocess.run(
        [COMMAND, "doctor", "--config", tmp_path / "settings.toml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    failed = [line for line in ended.stdout.splitlines() if line.startswith("failed")]
    assert (ended.returncode, len(failed), ended.stderr) == (1, 2, "")
    assert any("did you mean edge.http? Correct it" in line for line in failed)
