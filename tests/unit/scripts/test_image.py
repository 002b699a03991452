"""The container image, built as its Dockerfile says, and what is in it started and called."""

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from contract.versions import RELEASE
from scripts.image import NAME, Images
from tests.support.poll import until

# debootstrap and two stages that are stored as a whole.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


class Container:
    """A container of the image, in which commands run as its user."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._name = images.buildah("from", "--pull-never", NAME)
        self.settings = json.loads(images.buildah("inspect", self._name))["Docker"]["config"]

    def command(self, *arguments: str) -> list[str | Path]:
        return self._images.command("run", "--isolation", "chroot", "--network", "host", self._name, "--", *arguments)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def end_session(leader: subprocess.Popen[str]) -> None:
    """Ends every process of the session that a process leads."""

    def ended() -> bool:
        running = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
        left = [pid for pid in running if in_session(pid, leader.pid)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        return leader.poll() is not None and not left

    until(ended, "the end of the service", every=0.5)


def in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    missing = [program for program in ("buildah", "debootstrap") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip("needs root, buildah and debootstrap")
    with TemporaryDirectory() as name:
        images = Images(Path(name))
        images.make_base()
        images.build()
        yield Container(images)


def test_it_runs_as_its_own_user_without_what_builds_it(container: Container) -> None:
    assert container.run("id", "--user") == "10001\n"
    assert container.run(*container.settings["Entrypoint"], "--version") == f"{RELEASE}\n"
    listed = container.run("python", "-c", "from importlib.metadata import *; print(*packages_distributions())")
    modules = set(listed.split())
    assert modules >= {"dbos", "edge", "phonenumbers", "pyarrow", "pydantic_ai", "pyoxigraph"}
    assert modules.isdisjoint({"editables", "hatchling", "pip", "setuptools"})


def test_what_it_starts_answers_and_runs_a_workflow_in_a_sandbox(container: Container) -> None:
    entrypoint, arguments = container.settings["Entrypoint"], container.settings["Cmd"]
    assert arguments[0] == "serve"
    options = ["--demo", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    with subprocess.Popen(
        container.command(*entrypoint, "serve", *options), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as service:
        try:
            assert service.stdout is not None
            address = service.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            assert "Start a run from another shell:\n" in iter(service.stdout.readline, "")
            line = service.stdout.readline()
            health = container.settings["Healthcheck"]["Test"][1:-1]
            container.run(*health, address.removeprefix("http://").partition("/")[0])
            assert "completed" in container.run(*shlex.split(line))
        finally:
            # buildah passes no signal on to what it started, which is in its session.
            end_session(service)
