"""What the process that runs uv cannot do."""

import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.isolation.sandbox import interpreter
from backend.resources.environments.lock import PackagesError
from backend.resources.environments.uv import Uv
from backend.settings import PackageSettings

ATTEMPTS = """
import json, os, socket, sys
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


def run(settings: PackageSettings, own: Path) -> str:
    own.mkdir(exist_ok=True)
    return Uv(settings, interpreter.executable).run((), text="", own=own, seconds=60, most_bytes=2**20)


def possible(settings: PackageSettings, tmp_path: Path, in_place_of_uv: Callable[[str], None]) -> Any:
    """Returns what a program in uv's place can do."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    outside.write_text("somebody else's")
    with socket.create_server(("127.0.0.1", 0)) as server:
        known = (str(outside), server.getsockname()[1], str(own))
        in_place_of_uv(f"outside, port, own = {known}\n{ATTEMPTS}")
        tried = run(settings, own)
    assert outside.read_text() == "somebody else's"
    return json.loads(tried)


def test_without_an_index_it_only_writes_to_its_own_folder(
    settings: PackageSettings,
    tmp_path: Path,
    in_place_of_uv: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET", "of the service")
    assert possible(settings, tmp_path, in_place_of_uv) == ["own"]


def test_with_an_index_it_can_connect_too(
    settings: PackageSettings, tmp_path: Path, in_place_of_uv: Callable[[str], None]
) -> None:
    with_index = replace(settings, index_url="https://index.example.org/simple")
    assert possible(with_index, tmp_path, in_place_of_uv) == ["internet", "own"]


def test_it_ends_with_the_thread_that_started_it(
    settings: PackageSettings,
    tmp_path: Path,
    in_place_of_uv: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen

    def started_by_another(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        place = next(index for index, word in enumerate(command) if word.startswith("{"))
        of_another = json.dumps({**json.loads(command[place]), "parent": os.getppid()})
        return start([*command[:place], of_another, *command[place + 1 :]], **options)

    in_place_of_uv("open('ran', 'w').close()")
    run(settings, tmp_path / "own")
    assert (tmp_path / "own" / "ran").exists()
    monkeypatch.setattr(subprocess, "Popen", started_by_another)
    with pytest.raises(PackagesError, match="status 1"):
        run(settings, tmp_path / "other")
    assert not (tmp_path / "other" / "ran").exists()
