import socket
import subprocess
import sys
from importlib import metadata

import pytest

from deploy.cli.main import COMMANDS
from tests.unit.deploy.fake_backend import FakeBackend, command


def test_help_lists_every_command() -> None:
    shown = command("--help")

    assert shown.code == 0
    assert all(f"  {module.name} " in shown.out for module in COMMANDS)


HEAVY = ("grpc", "rich", "google.protobuf", "aiohttp", "sqlalchemy", "pydantic")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"]], ids=" ".join)
def test_help_imports_no_heavy_library(arguments: list[str]) -> None:
    program = f"""
import sys
from deploy.cli.main import run
code = run(sys.argv[1:])
sys.exit(code or ", ".join(set({HEAVY}) & set(sys.modules)) or 0)
"""
    ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_version_is_the_release() -> None:
    assert command("--version").out.strip() == metadata.version("workflow-api")


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["keys"], ["keys", "nonsense"], ["keys", "show"], ["keys", "list", "--nonsense"]],
    ids=" ".join,
)
def test_misuse_exits_with_2(arguments: list[str]) -> None:
    assert command(*arguments).code == 2


def test_misuse_with_json_is_a_json_error() -> None:
    refused = command("keys", "show", "--json")

    assert refused.code == 2
    assert refused.error == {"code": "invalid_request", "message": "Missing argument 'KEY_ID'."}


@pytest.mark.parametrize(
    "arguments",
    [
        ["keys", "show", "a\udcff"],
        ["audit", "--search", "a\udcff"],
        ["delete", "agent", "a\udcff"],
    ],
)
def test_an_argument_that_is_not_utf8_is_misuse(backend: FakeBackend, arguments: list[str]) -> None:
    refused = command(*arguments, "--grpc", backend.address, "--json")

    assert refused.code == 2
    assert refused.error["message"].endswith(" must be UTF-8.")


def test_no_backend_is_one_clear_line() -> None:
    refused = command("keys", "list", "--grpc", "127.0.0.1:1")

    assert refused.code == 1
    assert refused.out == ""
    assert refused.err.startswith("No backend answers at 127.0.0.1:1: ")
    assert refused.err.count("\n") == 1


def test_no_backend_with_json_is_a_json_error() -> None:
    assert command("keys", "list", "--grpc", "127.0.0.1:1", "--json").error["code"] == "runtime_unreachable"


def test_a_late_answer_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.client.backend.TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        late = command("keys", "list", "--grpc", f"127.0.0.1:{silent.getsockname()[1]}", "--json")
    assert late.code == 1
    assert late.error["code"] == "runtime_unreachable"
    assert late.error["message"].endswith("did not answer in time.")


def test_an_answer_without_our_status_is_reported(backend: FakeBackend) -> None:
    refused = command("keys", "list", "--grpc", backend.address, "--json")

    assert refused.code == 1
    assert refused.error["code"] == "runtime_error"


def test_the_backend_is_found_by_the_variable(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    from workflow_api.v1 import keys_pb2

    monkeypatch.setenv("WORKFLOW_API_GRPC", backend.address)
    backend.answers["ListKeys"] = keys_pb2.ListKeysResponse()

    assert command("keys", "list", "--json").json == {"items": []}
