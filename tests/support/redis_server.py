"""A Redis server of the tests' own, on loopback."""

import shutil
import signal
import subprocess
from contextlib import ExitStack

import pytest

from tests.support.poll import until
from tests.support.ports import answers, reserved_port

PASSWORD = "open-sesame"


class RedisServer:
    """Redis server that can be stopped and started again, empty, at the same port."""

    def __init__(self) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
        self._held = ExitStack()
        self.port = self._held.enter_context(reserved_port())
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server empty; restarts it when it runs."""
        self.stop()
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "requirepass": PASSWORD}
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            ["redis-server", *arguments], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        until(lambda: answers(self.port), "Redis to listen")

    def ask(self, *command: str) -> str:
        """Runs an administrator's command and returns the answer."""
        asked = ["redis-cli", "-p", str(self.port), "-a", PASSWORD, "--no-auth-warning", *command]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=60)
            self._process = None

    def freeze(self) -> None:
        """Suspends the server: its connections stay open and get no answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self.stop()
        self._held.close()
