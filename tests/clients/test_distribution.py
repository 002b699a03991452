"""The client as others install it: a wheel, in an environment with httpx and what that needs."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SOURCE = Path(__file__).parents[2] / "clients" / "python"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
USE = """
import asyncio
from importlib.metadata import distributions
from workflow_api_client import AsyncClient, Client, records
from workflow_api_client.testing import FakeApi, complete

api = FakeApi()
api.workflow("Digest", script=[complete({"pages": 3}, outputs={"work/a.txt": "a"})])
client = api.client()
run = client.with_options(headers={"X-Tenant": "blue"}).runs.start("Digest", wait=True)
assert run.result == {"pages": 3}
assert [type(event) for event in run.stream()][-1] is records.SegmentEndedEvent
assert run.outputs.read("work/a.txt") == b"a"
assert [item.run_id for page in client.runs.list().pages() for item in page.items] == [run.id]


async def work():
    client = api.async_client()
    return (await client.with_raw_response.me()).status, [item.run_id async for item in client.runs.list()]


assert asyncio.run(work()) == (200, [run.id])
print(*sorted(one.name for one in distributions()))
"""
# All modules but those of the extra `mcp`.
IMPORT_ALL = """
import importlib, pkgutil, workflow_api_client as package
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if ".mcp" not in module.name:
        importlib.import_module(module.name)
"""


def run(*command: str | Path, **options: str | Path) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,  # type: ignore[call-overload] # cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=SOURCE)
    [sources] = folder.glob("*.tar.gz")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sources)
    [made] = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_package_with_its_types_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "workflow_api_client/py.typed" in names
    assert "workflow_api_client/generated/records.py" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"workflow_api_client"}


def test_it_works_in_an_environment_with_httpx_alone(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(*PIP, "--python", python, "install", "--quiet", wheel)
    needed = {"anyio", "certifi", "h11", "httpcore", "httpx", "idna", "typing_extensions", "workflow-api-client"}
    present = set(run(python, "-W", "error", "-c", USE, cwd=tmp_path).split())
    assert "httpx" in present
    assert present <= needed
    assert "--watch" in run(tmp_path / "venv" / "bin" / "wfa", "start", "--help")


def interpreter(version: str) -> Path | None:
    """Returns an interpreter of a version of Python on this machine, from pyenv, uv or the path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in sorted(pyenv.glob(f"{version}.*/bin/python")):
        return python
    command = [sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


@pytest.mark.optional
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_works_on_every_python_that_it_names(wheel: Path, tmp_path: Path, version: str) -> None:
    found = interpreter(version)
    if found is None:
        pytest.skip(f"needs Python {version}, as from `uv python install {version}`")
    run(found, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    assert run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip() == version
    run(*PIP, "--python", python, "install", "--quiet", wheel)
    assert "workflow-api-client" in run(python, "-W", "error", "-c", USE, cwd=tmp_path).split()
    run(python, "-W", "error", "-c", IMPORT_ALL, cwd=tmp_path)


def test_types_are_seen_by_those_who_use_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(*PIP, "--python", python, "install", "--quiet", wheel)
    (tmp_path / "use.py").write_text(
        "from workflow_api_client import Client\n"
        "run = Client.from_env().runs.start('Digest').wait(timeout=5)\n"
        "for event in run.stream():\n"
        "    if event.type == 'step.failed':\n"
        "        reveal_type(event.data['retry_at'])\n"
        "reveal_type(run.status)\n"
        "raw = Client.from_env().with_raw_response.runs.get(run.id, timeout=5)\n"
        "reveal_type(raw.parsed)\n"
        "reveal_type(Client.from_env().runs.page(limit=5).next_page())\n"
        "reveal_type(run.record.created_at)\n"
    )
    (tmp_path / "pyproject.toml").write_text("")
    printed = run(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "use.py", cwd=tmp_path)
    assert 'Revealed type is "str | None"' in printed
    assert "Literal['queued']" in printed
    assert "datetime.datetime" in printed
    assert 'Revealed type is "workflow_api_client.run.Run"' in printed
    assert "workflow_api_client.listings.Page[workflow_api_client.generated.records.RunSummary] | None" in printed
