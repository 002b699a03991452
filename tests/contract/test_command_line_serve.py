"""Serving processes: what they print, how they end, and how their start fails."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.browsing import Browser
from tests.support.client import call
from tests.support.part import COMMAND, address_of, refused
from tests.support.planted import leaks, watch
from tests.support.wire import BASE, Address

pytestmark = pytest.mark.long

FREE = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
DEMONSTRATION = ("--demo", *FREE, "--console", "127.0.0.1:0")


@contextmanager
def served(*arguments: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A serving process and its first line; it is killed in the end where a test left it running."""
    with TemporaryDirectory() as folder:
        log = watch(Path(folder) / "stderr")
        with log.open("wb") as said:
            process = subprocess.Popen(
                [COMMAND, *arguments],
                env={"WORKFLOW_API_LOG_LEVEL": "debug", **os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                encoding="utf-8",
            )
        assert process.stdout
        try:
            yield process, process.stdout.readline().rstrip("\n")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            sys.stderr.write(log.read_text(errors="replace"))
        assert leaks(log) == []


def health(address: Address) -> Any:
    return call(address, "GET", f"{BASE}/health").json()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_the_base_address_and_ends_with_0(tmp_path: Path, number: signal.Signals) -> None:
    with served("serve", "--data", str(tmp_path / "data"), *FREE) as (process, line):
        assert health(address_of(line))["status"] == "ok"
        process.send_signal(number)
        assert process.wait(timeout=60) == 0


def test_serve_prints_json_for_machines(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with served("serve", "--data", str(folder), *FREE, "--json") as (_, line):
        ready = json.loads(line)
    address_of(ready["base_address"])
    assert ready["data"] == str(folder)


def test_the_parts_serve_as_separate_processes(tmp_path: Path) -> None:
    backend = ("backend", "--data", str(tmp_path / "data"), "--grpc", "127.0.0.1:0", "--json")
    with served(*backend) as (backend_process, line):
        grpc = json.loads(line)["grpc"]
        with served("edge", "--http", "127.0.0.1:0", "--grpc", grpc) as (edge_process, base_address):
            assert health(address_of(base_address))["status"] == "ok"
            edge_process.terminate()
            assert edge_process.wait(timeout=60) == 0
        backend_process.terminate()
        assert backend_process.wait(timeout=60) == 0


def test_the_socket_between_the_parts_is_accessible_to_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "run" / "grpc.sock"
    backend = ("backend", "--data", str(tmp_path / "data"), "--grpc", f"unix:{path}", "--json")
    for sign in (signal.SIGKILL, signal.SIGTERM):
        with served(*backend) as (process, line):
            assert json.loads(line)["grpc"] == f"unix:{path}"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert "in use" in refused(*backend[:2], str(tmp_path / "other"), *backend[3:])
            listed = subprocess.run(
                [COMMAND, "keys", "list", "--json"],
                env={"WORKFLOW_API_GRPC": f"unix:{path}"},
                capture_output=True,
                check=True,
            )
            assert json.loads(listed.stdout) == {"items": []}
            with served("edge", "--http", "127.0.0.1:0", "--grpc", f"unix:{path}") as (_, base_address):
                assert health(address_of(base_address))["status"] == "ok"
            process.send_signal(sign)
            process.wait(timeout=60)
    assert not path.exists()


def test_an_edge_starts_before_its_backend() -> None:
    with served("edge", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:1") as (_, base_address):
        answer = call(address_of(base_address), "GET", f"{BASE}/me")
    assert (answer.status, answer.json()["error"]["details"]) == (503, {"reason": "keys_table_unreachable"})


def test_an_http_address_in_use_fails_with_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refused("serve", "--data", str(tmp_path), "--http", address, "--grpc", "127.0.0.1:0")
    assert line == f"The HTTP address {address} is in use by another process."


def test_a_grpc_address_in_use_fails_with_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refused("serve", "--data", str(tmp_path), "--http", "127.0.0.1:0", "--grpc", address)
    assert address in line


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9090"])
def test_grpc_off_loopback_is_refused_without_a_certificate(tmp_path: Path, address: str) -> None:
    line = refused("serve", "--data", str(tmp_path), "--grpc", address)
    assert line.startswith("backend.grpc: must be on this machine")


def test_a_plain_channel_off_loopback_is_refused() -> None:
    line = refused("edge", "--http", "127.0.0.1:0", "--grpc", "192.0.2.1:9090")
    assert line.startswith("edge.backend: must be on this machine")
    line = refused("keys", "list", "--grpc", "192.0.2.1:9090")
    assert line.startswith("The backend's address 192.0.2.1:9090 must be on this machine")


def test_a_data_folder_that_is_a_file_fails_with_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refused("serve", "--data", str(file), *FREE)


def test_a_data_folder_in_use_fails_with_one_sentence(tmp_path: Path) -> None:
    with served("serve", "--data", str(tmp_path), *FREE):
        assert "in use" in refused("serve", "--data", str(tmp_path), *FREE)


def test_where_steps_cannot_be_isolated_the_start_says_what_to_do(tmp_path: Path) -> None:
    arguments = ("serve", "--data", str(tmp_path / "data"), *FREE)
    line = refused(*arguments, variables={"PATH": str(tmp_path), "WORKFLOW_API_RUNTIME_SANDBOX": "bwrap"})
    assert "bubblewrap" in line


def test_steps_run_without_isolation_where_it_is_configured(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[runtime]\nsandbox = "none"\n')
    arguments = ("serve", "--config", str(config), "--data", str(tmp_path / "data"), *FREE)
    with served(*arguments, PATH=str(tmp_path)) as (_, line):
        assert health(address_of(line))["status"] == "ok"


def test_a_variable_that_is_no_setting_stops_the_start(tmp_path: Path) -> None:
    line = refused("serve", "--data", str(tmp_path), variables={"WORKFLOW_API_COLOUR": "red"})
    assert line.startswith("WORKFLOW_API_COLOUR: is no setting")


def test_a_setting_that_is_none_stops_the_start(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("[edge]\ncolour = 1\n")
    assert refused("serve", "--config", str(config)).startswith("edge.colour: is no setting")


def test_a_redis_secret_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[edge]\nredis_url = "secret:redis"\n[secrets]\nredis = "env:PLANT_REDIS"\n')
    line = refused(
        "edge", "--config", str(config), "--http", "127.0.0.1:0", variables={"PLANT_REDIS": "10.0.0.7:open-sesame"}
    )
    assert line == "The address of Redis cannot be read: the secret 'redis' is no redis:// or rediss:// address."


def record_of_a_start(data: Path) -> dict[str, Any]:
    """Starts a demonstration, stops it, and returns the object that it printed."""
    with subprocess.Popen(
        [COMMAND, "serve", *DEMONSTRATION, "--data", str(data), "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout
        record: dict[str, Any] = json.loads(process.stdout.readline())
        process.terminate()
    assert process.returncode == 0
    return record


def test_a_demonstration_gives_its_key_and_its_password_out_at_the_first_start_only(tmp_path: Path) -> None:
    first = record_of_a_start(tmp_path / "data")
    calls = Path(first["calls"])
    assert f"export WORKFLOW_API_KEY={first['key']}" in calls.read_text().splitlines()
    assert stat.S_IMODE(calls.stat().st_mode) == 0o600
    assert (first["user"], len(first["password"]) > 10) == ("admin", True)
    later = record_of_a_start(tmp_path / "data")
    assert not {"key", "external_id", "user", "password"} & later.keys()
    assert f"export WORKFLOW_API_KEY={first['key']}" in calls.read_text().splitlines()


def block(process: subprocess.Popen[str]) -> list[str]:
    """The last lines that a demonstration prints: a line to paste, the console, and a file with calls."""
    assert process.stdout
    lines = [process.stdout.readline().rstrip("\n")]
    while not lines[-1].startswith("The same by curl"):
        lines.append(process.stdout.readline().rstrip("\n"))
    return lines[-4:]


def pasted(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-eo", "pipefail"],
        input=script,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_a_later_start_says_the_whole_command_that_resets_the_password(tmp_path: Path) -> None:
    record_of_a_start(tmp_path / "data")
    with served("serve", *DEMONSTRATION, "--data", str(tmp_path / "data")) as (process, _):
        _, line, console, _ = block(process)
        (reset,) = re.findall(r"`(.+)`", console)
        changed = pasted(reset, tmp_path)
    assert reset.split()[0] == line.split()[0]
    assert (changed.returncode, "password" in changed.stdout.casefold()) == (0, True), changed


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_calls_that_a_demonstration_gives_work(tmp_path: Path) -> None:
    with served("serve", *DEMONSTRATION, "--data", str(tmp_path / "data")) as (process, _):
        _, line, console, file = block(process)
        started = pasted(line, tmp_path)
        called = pasted(Path(file.rpartition(": ")[2]).read_text(), tmp_path)
        words = console.split()
        url = urlsplit(words[2])
        signed_in = Browser((str(url.hostname), int(url.port or 0))).sign_in(words[7], words[11].rstrip(","))
    assert (started.returncode, "status        completed" in started.stdout) == (0, True), started
    assert called.returncode == 0, called
    assert called.stdout.count('"status":"completed"') >= 3
    assert '"completed_with_warnings":true' in called.stdout
    assert (tmp_path / "text-digest.zip").stat().st_size > 0
    assert signed_in.status == 303
