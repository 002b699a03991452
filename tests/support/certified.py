"""A backend and an edge as processes of their own, with certificates between them."""

import json
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc

from tests.support.authority import ADMIN, BACKEND, EDGE, Authority, IssuedCertificate
from tests.support.client import Caller
from tests.support.part import COMMAND, Part, address_of
from tests.support.poll import until
from tests.support.ports import reserved_port

IDENTITIES = f'"dns:{EDGE}" = ["edge"]\n"uri:{ADMIN}" = ["administration"]\n'


class CertifiedParts:
    """The parts on one folder, with their certificates below it; commands run as an administrator's."""

    def __init__(self, folder: Path, identities: str = IDENTITIES) -> None:
        self.folder = folder
        self.trusted = Authority("first")
        self._port = ExitStack()
        self.grpc = f"127.0.0.1:{self._port.enter_context(reserved_port())}"
        for part, name in (("backend", BACKEND), ("edge", EDGE), ("admin", ADMIN)):
            self.certify(part, self.trusted.issue(name), self.trusted.pem)
        self.config = folder / "settings.toml"
        self.config.write_text(
            f'data = "{folder}/data"\n[backend]\ngrpc = "{self.grpc}"\n[backend.tls]\n{self._files("backend")}'
            f'[edge]\nhttp = "127.0.0.1:0"\nbackend = "{self.grpc}"\n[edge.backend_tls]\n{self._files("edge")}'
            f'server_name = "{BACKEND}"\n[admin.backend_tls]\n{self._files("admin")}server_name = "{BACKEND}"\n'
            f"[identities]\n{identities}"
        )
        self.backend, self.edge = (
            Part(folder / part, part, "--config", str(self.config)) for part in ("backend", "edge")
        )

    def _files(self, part: str) -> str:
        names = {"certificate": "certificate.pem", "key": "key.pem", "ca": "ca.pem"}
        return "".join(f'{name} = "{self.folder}/{part}/{file}"\n' for name, file in names.items())

    def certify(self, part: str, issued: IssuedCertificate, authority: bytes) -> None:
        issued.write(self.folder / part, authority)

    def trust(self, part: str, authority: bytes) -> None:
        (self.folder / part / "ca.pem").write_bytes(authority)

    def stop(self) -> None:
        self.edge.kill()
        self.backend.kill()
        self._port.close()

    def channel(self, *names: str) -> grpc.Channel:
        """Opens a channel with a client certificate of these names."""
        issued = self.trusted.issue(*names)
        credentials = grpc.ssl_channel_credentials(self.trusted.pem, issued.key, issued.certificate)
        return grpc.secure_channel(self.grpc, credentials, options=(("grpc.ssl_target_name_override", BACKEND),))

    def done(self, *arguments: str) -> Any:
        """Runs a command that must succeed and returns its output."""
        ended = self._command(*arguments)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def refusal(self, *arguments: str, **variables: str) -> Any:
        """Runs a command that must fail and returns its message."""
        ended = self._command(*arguments, **variables)
        assert ended.returncode == 1, ended
        return json.loads(ended.stderr)["error"]

    def _command(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [COMMAND, *arguments, "--grpc", self.grpc, "--json"],
            env={**os.environ, "WORKFLOW_API_CONFIG": str(self.config), **variables},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def caller(self) -> Caller:
        """Returns a caller with a fresh key once the edge knows it."""
        made = self.done("keys", "create", "--name", "parts", "--scopes", "runs:read", "--rpm", "10000")
        address = address_of(self.edge.ready["base_address"])
        caller = Caller(address, made["key_id"], made["key"], made["external_id"])
        until(lambda: caller.get("/me").status == 200, "the edge to know the key")
        return caller
