"""The client as others install it: a wheel, in an environment with httpx and what that needs."""

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
api.workflow("Digest", script=[complete({"pages": 3})])
assert api.client().runs.start("Digest").wait().result == {"pages": 3}
asyncio.run(api.async_client().me())
print(*sorted(one.name for one in distributions()))
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


def test_types_are_seen_by_those_who_use_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(*PIP, "--python", python, "install", "--quiet", wheel)
    (tmp_path / "use.py").write_text(
        "from workflow_api_client import Client\n"
        "run = Client.from_env().runs.start('Digest').wait(timeout=5)\n"
        "for event in run.events(live=True):\n"
        "    if event.type == 'step.failed':\n"
        "        reveal_type(event.data['retry_at'])\n"
        "reveal_type(run.status)\n"
        "reveal_type(run.record.created_at)\n"
    )
    (tmp_path / "pyproject.toml").write_text("")
    printed = run(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "use.py", cwd=tmp_path)
    assert 'Revealed type is "str | None"' in printed
    assert "Literal['queued']" in printed
    assert "datetime.datetime" in printed
