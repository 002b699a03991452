"""A deployment of several processes on one PostgreSQL and one folder of objects."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.part import Part, address_of
from tests.support.poll import until


class Deployment:
    """Processes of one deployment; `stop` kills those that still run."""

    def __init__(self, folder: Path, database: str, **settings: str) -> None:
        self.database = database
        self._folder = folder
        self.objects = folder / "objects"
        self._parts: list[Part] = []
        self._admins: list[Admin] = []
        given = {
            "BACKEND_DATABASE": "env:DATABASE",
            "RUNTIME_ENGINE": "dbos",
            "OBJECTS_FOLDER": str(self.objects),
            **settings,
        }
        self._variables = {f"WORKFLOW_API_{name}": value for name, value in given.items()} | {"DATABASE": database}

    def backend(self, grpc: str = "127.0.0.1:0", variables: Mapping[str, str] = {}) -> Part:
        return self._part("backend", "--grpc", grpc, variables=variables)

    def worker(self) -> Part:
        return self._part("worker")

    def edge(self, *backends: Part) -> Part:
        grpc = [part.ready["grpc"] for part in backends]
        return self._part("edge", "--http", "127.0.0.1:0", "--grpc", ",".join(grpc))

    def console(self, backend: Part) -> Part:
        return self._part("console", "--http", "127.0.0.1:0", "--grpc", backend.ready["grpc"])

    def admin(self, backend: Part) -> Admin:
        """Returns administrator stubs for this backend."""
        self._admins.append(Admin(backend.ready["grpc"]))
        return self._admins[-1]

    def caller(self, edge: Part, admin: Admin, **properties: Any) -> Caller:
        """Returns a caller with a fresh key once the edge knows it."""
        return self.same_caller(edge, admin.create_key(**properties))

    def same_caller(self, edge: Part, credentials: Any) -> Caller:
        """Returns a caller with an existing key at another edge."""
        address = address_of(edge.ready["base_address"])
        caller = Caller(address, credentials.key_id, credentials.key, credentials.external_id)
        until(lambda: caller.get("/me").status not in {401, 503}, f"the edge to know {caller.key_id}")
        return caller

    def stop(self) -> None:
        for admin in self._admins:
            admin.close()
        for part in reversed(self._parts):
            part.kill()

    def _part(self, command: str, *arguments: str, variables: Mapping[str, str] = {}) -> Part:
        folder = self._folder / f"{command}-{len(self._parts)}"
        folder.mkdir()
        data = () if command in {"edge", "console"} else ("--data", str(folder / "data"))
        part = Part(folder, command, *arguments, *data, variables=self._variables | variables)
        self._parts.append(part)
        part.start()
        return part
