"""A deployment of several processes on one PostgreSQL and one folder of objects."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import COMMAND


class Part:
    """One process; it can be ended, killed, halted, and started again under the same name."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        folder.mkdir()
        self._said, self._log = folder / "stdout", folder / "stderr"
        self._environment = environment
        self._arguments = [*arguments, "--data", str(folder / "data")] if arguments[0] != "edge" else [*arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self.ready: dict[str, Any] = {}

    def start(self) -> "Part":
        """Returns once the process has said that it is ready."""
        with self._said.open("wb") as said, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, *self._arguments, "--json"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
            )
        self.ready = until(self._told, f"the {self._arguments[0]}")
        return self

    def stop(self) -> None:
        """Asks it to end, and waits."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self._end(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=120)
            self._process = None

    def _told(self) -> dict[str, Any]:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"it ended with {self._process.returncode}:\n{self.log()}")
        said = self._said.read_text()
        told: dict[str, Any] = json.loads(said) if said.endswith("\n") else {}
        return told


class Deployment:
    """Starts parts that belong together; `stop` ends what is left of them."""

    def __init__(self, folder: Path, database: str, **settings: str) -> None:
        self._folder = folder
        self._parts: list[Part] = []
        self._admins: list[Admin] = []
        given = {
            "BACKEND_DATABASE": "env:DATABASE",
            "RUNTIME_ENGINE": "dbos",
            "OBJECTS_FOLDER": str(folder / "objects"),
            **settings,
        }
        self._environment = dict(os.environ) | {f"WORKFLOW_API_{name}": value for name, value in given.items()}
        self._environment["DATABASE"] = database

    def backend(self) -> Part:
        return self._part("backend", "--grpc", "127.0.0.1:0")

    def worker(self) -> Part:
        return self._part("worker")

    def edge(self, backend: Part) -> Part:
        return self._part("edge", "--http", "127.0.0.1:0", "--grpc", backend.ready["grpc"])

    def admin(self, backend: Part) -> Admin:
        """An administrator at this backend."""
        self._admins.append(Admin(backend.ready["grpc"]))
        return self._admins[-1]

    def caller(self, edge: Part, admin: Admin, **properties: Any) -> Caller:
        """A caller with a fresh key, once the edge knows it."""
        return self.same_caller(edge, admin.create_key(**properties))

    def same_caller(self, edge: Part, credentials: Any) -> Caller:
        """A caller with a key at another edge."""
        address = urlsplit(edge.ready["base_address"])
        assert address.hostname is not None
        assert address.port is not None
        caller = Caller((address.hostname, address.port), credentials.key_id, credentials.key, credentials.external_id)
        until(lambda: caller.get("/me").status not in {401, 503}, f"the edge to know {caller.key_id}")
        return caller

    def stop(self) -> None:
        for admin in self._admins:
            admin.close()
        for part in reversed(self._parts):
            part.kill()

    def _part(self, *arguments: str) -> Part:
        part = Part(self._folder / f"{arguments[0]}-{len(self._parts)}", self._environment, *arguments)
        self._parts.append(part)
        return part.start()
