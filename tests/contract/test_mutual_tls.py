"""Certificates between the parts, each a process of its own."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.authority import ADMIN, BACKEND, EDGE, Authority, Issued
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.processes import address_of, refused, served
from tests.support.service import COMMAND


class Parts:
    """A backend and an edge on one folder, with their certificates below it; commands run as an administrator's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trusted = Authority("first")
        self._processes = ExitStack()
        self.address = ("127.0.0.1", 0)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.grpc = f"127.0.0.1:{free.getsockname()[1]}"
        for part, name in (("backend", BACKEND), ("edge", EDGE), ("admin", ADMIN)):
            self.certify(part, self.trusted.issue(name), self.trusted.pem)
        self.config = folder / "settings.toml"
        self.config.write_text(
            f'data = "{folder}/data"\n[backend]\ngrpc = "{self.grpc}"\n[backend.tls]\n{self.files("backend")}'
            f'[edge]\nhttp = "127.0.0.1:0"\nbackend = "{self.grpc}"\n[edge.backend_tls]\n{self.files("edge")}'
            f'server_name = "{BACKEND}"\n[admin.backend_tls]\n{self.files("admin")}server_name = "{BACKEND}"\n'
        )

    def files(self, part: str) -> str:
        names = {"certificate": "certificate.pem", "key": "key.pem", "ca": "ca.pem"}
        return "".join(f'{name} = "{self.folder}/{part}/{file}"\n' for name, file in names.items())

    def certify(self, part: str, issued: Issued, authority: bytes) -> None:
        issued.write(self.folder / part, authority)

    def trust(self, part: str, authority: bytes) -> None:
        (self.folder / part / "ca.pem").write_bytes(authority)

    def start_backend(self) -> None:
        started, _ = self._processes.enter_context(served("backend", "--config", str(self.config)))
        self.backend = started

    def start_edge(self) -> None:
        _, base = self._processes.enter_context(served("edge", "--config", str(self.config)))
        self.address = address_of(base)

    def stop(self) -> None:
        self._processes.close()

    def command(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [COMMAND, *arguments, "--grpc", self.grpc, "--json"],
            env={"WORKFLOW_API_CONFIG": str(self.config), **variables},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def done(self, *arguments: str) -> Any:
        ended = self.command(*arguments)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def refusal(self, *arguments: str, **variables: str) -> Any:
        ended = self.command(*arguments, **variables)
        assert ended.returncode == 1, ended
        return json.loads(ended.stderr)["error"]

    def caller(self) -> Caller:
        """A caller with a fresh key, once the edge knows it."""
        made = self.done("keys", "create", "--name", "parts", "--scopes", "runs:read", "--rpm", "10000")
        caller = Caller(self.address, made["key_id"], made["key"], made["external_id"])
        until(lambda: caller.get("/me").status == 200, "the edge to know the key")
        return caller


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    parts = Parts(tmp_path)
    try:
        parts.start_backend()
        yield parts
    finally:
        parts.stop()


def test_edge_and_administrator_reach_the_backend_with_their_certificates(parts: Parts) -> None:
    parts.start_edge()
    assert parts.caller().get("/runs").json()["items"] == []


def test_whoever_has_no_certificate_of_the_authority_is_not_heard(parts: Parts) -> None:
    assert parts.done("keys", "list") == {"items": []}

    stranger = Authority("second")
    parts.certify("admin", stranger.issue(ADMIN), parts.trusted.pem)
    assert parts.refusal("keys", "list")["code"] == "runtime_unreachable"

    plain = parts.refusal("keys", "list", WORKFLOW_API_CONFIG="")
    assert plain["code"] == "runtime_unreachable"


def test_a_backend_of_another_authority_or_name_is_not_trusted(parts: Parts) -> None:
    parts.certify("admin", parts.trusted.issue(ADMIN), Authority("second").pem)
    other_authority = parts.refusal("keys", "list")
    assert other_authority["code"] == "runtime_unreachable"
    assert "CERTIFICATE_VERIFY_FAILED" in other_authority["message"]

    parts.certify("admin", parts.trusted.issue(ADMIN), parts.trusted.pem)
    other_name = parts.refusal("keys", "list", WORKFLOW_API_ADMIN_BACKEND_TLS_SERVER_NAME="other.test")
    assert other_name["code"] == "runtime_unreachable"
    assert "Hostname Verification Check failed" in other_name["message"]


def test_a_certificate_that_expired_is_refused_by_both_sides(parts: Parts, tmp_path: Path) -> None:
    expired = parts.trusted.issue(ADMIN, days=-1)
    parts.certify("admin", expired, parts.trusted.pem)
    told = parts.refusal("keys", "list")
    assert told["code"] == "invalid_settings"
    assert "expired" in told["message"]

    parts.certify("backend", parts.trusted.issue(BACKEND, days=-1), parts.trusted.pem)
    line = refused("backend", "--config", str(parts.config), "--data", str(tmp_path / "other"))
    assert line.startswith(f"The certificate in {tmp_path}/backend/certificate.pem expired at")


def test_new_certificates_are_taken_up_while_all_goes_on(parts: Parts) -> None:
    """An authority is replaced in three moves, and no part is started again."""
    parts.start_edge()
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
    parts.backend.send_signal(signal.SIGTERM)
    assert parts.backend.wait(timeout=60) == 0
    parts.start_backend()
    until(lambda: caller.get("/me").status == 200, "the edge to be back")
