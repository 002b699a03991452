"""What the process that runs uv cannot do."""

import json
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.environments.uv import Uv
from backend.sandbox import interpreter
from backend.settings import PackageSettings

ATTEMPTS = """
import json, os, socket, sys
outside, port, own = sys.argv[1:]
def unix():
    socket.socket(socket.AF_UNIX).connect(outside)
def internet():
    socket.create_connection(("127.0.0.1", int(port)), 5).close()
attempts = {
    "read": lambda: open(outside).read(),
    "write": lambda: open(outside, "w"),
    "create": lambda: open(outside + ".new", "w"),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "unix": unix,
    "internet": internet,
    "own": lambda: open(own + "/made", "w").close(),
    "variables": lambda: os.environ["SECRET"],
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except Exception:
        continue
    done.append(name)
print(json.dumps(done))
"""


def possible(settings: PackageSettings, tmp_path: Path) -> Any:
    """Returns what a program in uv's place can do."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    own.mkdir()
    outside.write_text("somebody else's")
    uv = Uv(settings, interpreter.executable)
    command = uv._argv((), own, 60, 2**20)
    options = next(index for index, word in enumerate(command) if word.startswith("{"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = [str(interpreter.executable()), "-I", "-S", "-c", ATTEMPTS, str(outside)]
        program += [str(server.getsockname()[1]), str(own)]
        tried = subprocess.run(
            [*command[: options + 1], *program], env=uv._environment(own), capture_output=True, check=True, cwd=own
        )
    assert outside.read_text() == "somebody else's"
    return json.loads(tried.stdout)


def test_without_an_index_it_only_writes_to_its_own_folder(
    settings: PackageSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of the service")
    assert possible(settings, tmp_path) == ["own"]


def test_with_an_index_it_can_connect_too(settings: PackageSettings, tmp_path: Path) -> None:
    assert possible(replace(settings, index_url="https://index.example.org/simple"), tmp_path) == ["internet", "own"]


def test_it_ends_with_the_thread_that_started_it(settings: PackageSettings, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    command = Uv(settings, interpreter.executable)._argv((), own, 60, 2**20)
    options = next(index for index, word in enumerate(command) if word.startswith("{"))
    of_another = json.dumps({**json.loads(command[options]), "parent": os.getppid()})
    program = [str(interpreter.executable()), "-I", "-S", "-c", "print('it ran')"]
    tried = subprocess.run([*command[:options], of_another, *program], capture_output=True, check=False)
    assert (tried.returncode, tried.stdout) == (1, b"")
