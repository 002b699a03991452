"""A really started service: the command as a caller starts it, on free ports and a folder of its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.admin import Admin, Credentials
from tests.support.client import Caller, call
from tests.support.part import Part, address_of
from tests.support.poll import until
from tests.support.postgresql import tables_holding
from tests.support.wire import BASE, Address, Answer


class Service(Part):
    """`workflow-api serve` on a folder; it can be stopped, killed and started again on the same folder."""

    def __init__(
        self, folder: Path, *options: str, database: str | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        self._data = folder / "data"
        self._database = database
        ports = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
        given = {"WORKFLOW_API_BACKEND_DATABASE": "env:TEST_DATABASE", "TEST_DATABASE": database} if database else {}
        super().__init__(
            folder, "serve", "--data", str(self._data), *ports, *options, variables={**given, **(variables or {})}
        )
        self.address: Address = ("127.0.0.1", 0)
        self.admin: Admin

    def start(self) -> None:
        """Starts the command and returns once it is ready."""
        super().start()
        self.address = address_of(self.ready["base_address"])
        self.admin = Admin(self.ready["grpc"])

    def stop(self) -> None:
        """Asks the process to end and waits for it."""
        if self._process is not None:
            self.admin.close()
        super().stop()

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        if self._process is not None:
            self.admin.close()
        super().kill()

    def call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """Makes a call below the base path without a key."""
        return call(self.address, method, BASE + path, headers, body)

    def caller(self, credentials: Credentials) -> Caller:
        """Returns a caller with these credentials once the edge knows them."""
        caller = Caller(self.address, credentials.key_id, credentials.key, credentials.external_id)
        until(lambda: caller.get("/me").status not in {401, 503}, f"the edge to know {caller.key_id}")
        return caller

    def new_caller(self, **properties: Any) -> Caller:
        """Returns a caller with a fresh key of these properties."""
        return self.caller(self.admin.create_key(**properties))

    def files_holding(self, text: str) -> list[Path]:
        """Returns the files of the data folder that hold the text, except those of the database."""
        return [path for path in self._files_with(text) if path not in self._database_files()]

    def databases_holding(self, text: str) -> list[Path | str]:
        """Returns the database's files, or its tables, that hold the text."""
        if self._database is not None:
            return list(tables_holding(self._database, text))
        return [path for path in self._files_with(text) if path in self._database_files()]

    def _files_with(self, text: str) -> list[Path]:
        return [path for path in self._files() if text.encode() in _begin_of(path, -1)]

    def _database_files(self) -> set[Path]:
        """Every file that begins as SQLite's do, with its journals."""
        mains = [path for path in self._files() if _begin_of(path, 15) == b"SQLite format 3"]
        return {found for main in mains for found in main.parent.glob(f"{main.name}*")}

    def _files(self) -> list[Path]:
        return [Path(folder, name) for folder, _, names in os.walk(self._data) for name in names]


def _begin_of(path: Path, size: int) -> bytes:
    """What a file begins with; nothing where it was removed since it was found, or is no regular file."""
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except FileNotFoundError:
        return b""
