"""A really started service: the command as a caller starts it, on free ports and a folder of its own."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.admin import Admin, Credentials
from tests.support.client import Caller, call
from tests.support.planted import watch
from tests.support.poll import until
from tests.support.postgresql import tables_holding
from tests.support.wire import BASE, Address, Answer

COMMAND = Path(sys.executable).with_name("workflow-api")


class Service:
    """One `workflow-api serve` on a folder; it can be stopped, killed and started again on the same folder."""

    def __init__(self, folder: Path, *options: str, database: str | None = None) -> None:
        self._data = folder / "data"
        self._said = folder / "stdout"
        self._log = watch(folder / "stderr")
        self._options = options
        self._database = database
        # At the level that logs most: at the end of the tests nothing that was planted may stand in any log.
        self._environment = {"WORKFLOW_API_LOG_LEVEL": "debug", **os.environ}
        if database is not None:
            self._environment["WORKFLOW_API_BACKEND_DATABASE"] = "env:TEST_DATABASE"
            self._environment["TEST_DATABASE"] = database
        self._process: subprocess.Popen[bytes] | None = None
        self.address: Address = ("127.0.0.1", 0)
        self.admin: Admin

    def start(self) -> None:
        """Starts the command and returns once it has said that it is ready."""
        ports = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        with self._said.open("wb") as said, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, "serve", "--data", self._data, *ports, *self._options, "--json"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
            )
        ready = until(self._ready, "the base address", seconds=60)
        host = urlsplit(ready["base_address"])
        assert (host.scheme, host.path, host.hostname) == ("http", BASE, "127.0.0.1")
        assert host.port is not None
        self.address = ("127.0.0.1", host.port)
        self.admin = Admin(ready["grpc"])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Asks the process to end and waits for it."""
        if self._process is not None:
            self.admin.close()
            self._process.terminate()
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            self._process = None

    def kill(self) -> None:
        """Ends the process as a power cut would."""
        if self._process is not None:
            self.admin.close()
            self._process.kill()
            self._process.wait(timeout=60)
            self._process = None

    def call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """A call below the base without a key."""
        return call(self.address, method, BASE + path, headers, body)

    def caller(self, credentials: Credentials) -> Caller:
        """A caller with these credentials, once the edge knows them."""
        caller = Caller(self.address, credentials.key_id, credentials.key, credentials.external_id)
        until(lambda: caller.get("/me").status not in {401, 503}, f"the edge to know {caller.key_id}", seconds=20)
        return caller

    def new_caller(self, **properties: Any) -> Caller:
        """A caller with a fresh key of these properties."""
        return self.caller(self.admin.create_key(**properties))

    def memory(self) -> int:
        """Bytes of memory that the process holds now."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def peak_memory(self) -> int:
        """The most bytes of memory that the process has held at any time."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def log(self) -> str:
        """What the process has said so far."""
        return self._log.read_text(errors="replace")

    def files_holding(self, text: str) -> list[Path]:
        """The files of the data folder that hold the text, the database's own apart."""
        return [path for path in self._files_with(text) if path not in self._database_files()]

    def databases_holding(self, text: str) -> list[Path | str]:
        """The database's files, or its tables, that hold the text."""
        if self._database is not None:
            return list(tables_holding(self._database, text))
        return [path for path in self._files_with(text) if path in self._database_files()]

    def _files_with(self, text: str) -> list[Path]:
        files = [path for path in self._data.rglob("*") if path.is_file()]
        return [path for path in files if text.encode() in path.read_bytes()]

    def _database_files(self) -> set[Path]:
        """Every file that begins as SQLite's do, with its journals."""
        mains = [path for path in self._data.rglob("*") if path.is_file() and _begins_as_sqlite(path)]
        return {found for main in mains for found in main.parent.glob(f"{main.name}*")}

    def _ready(self) -> dict[str, str]:
        """What the command prints when it is ready; empty until then."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the service ended with {self._process.returncode}:\n{self.log()}")
        said = self._said.read_text()
        ready: dict[str, str] = json.loads(said) if said.endswith("\n") else {}
        return ready


def _begins_as_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"
