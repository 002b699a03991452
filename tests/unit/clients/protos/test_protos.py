import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[4]
PROJECT = ROOT / "clients" / "protos"
LARGEST_BYTES = 5_000_000

CALLER = """
import grpc, importlib, pkgutil
import workflow_api.v1
from workflow_api.v1 import runs_pb2, runs_pb2_grpc
from workflow_api_channel import channel_options
from workflow_api_testing import FakeBackend

for module in pkgutil.iter_modules(workflow_api.v1.__path__):
    importlib.import_module(f"workflow_api.v1.{module.name}")
options = channel_options(health_check=False)
with FakeBackend() as fake, grpc.insecure_channel(fake.address, options=options) as channel:
    fake.answer("ListRuns", runs_pb2.ListRunsResponse(next_page_token="more"))
    print(runs_pb2_grpc.RunsServiceStub(channel).ListRuns(runs_pb2.ListRunsRequest()).next_page_token)
try:
    from workflow_api_testing import test_backend
except ImportError as error:
    print(error)
"""


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


SERVICE = read(ROOT / "pyproject.toml")
STUBS = read(PROJECT / "pyproject.toml")


def test_the_stubs_have_the_version_of_the_service_and_its_bounds_of_what_they_need() -> None:
    assert STUBS["project"]["version"] == SERVICE["project"]["version"]
    assert set(STUBS["project"]["dependencies"]) <= set(SERVICE["project"]["dependencies"])


def test_they_bring_what_of_the_tests_package_imports_no_service() -> None:
    left_out = {PROJECT / path for path in STUBS["tool"]["hatch"]["build"]["exclude"]}
    modules = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for path in (PROJECT / "workflow_api_testing").glob("*.py")
        if path not in left_out
    }
    [contract] = [
        contract
        for contract in SERVICE["tool"]["importlinter"]["contracts"]
        if "workflow_api_testing.fake" in contract.get("source_modules", [])
    ]
    assert {*modules, "workflow_api_channel"} == {*contract["source_modules"], "workflow_api_testing.__init__"}


def with_requirements(names: list[str]) -> set[str]:
    """Returns the names of distributions and of all that they require here."""
    found: set[str] = set()
    left = [*names]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                left.append(requirement.name)
    return found


def link(name: str, packages: Path) -> None:
    """Puts the files of a distribution of this environment into another."""
    for file in distribution(name).files or []:
        source, target = Path(str(file.locate())), packages / file
        if source.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.symlink_to(source)


@pytest.mark.long
def test_the_wheel_is_small_and_works_with_nothing_but_what_it_requires(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=PROJECT, check=True)
    [source] = tmp_path.glob("*.tar.gz")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--disable-pip-version-check", "--wheel-dir", tmp_path, source),
        ],
        check=True,
    )
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        assert sum(entry.file_size for entry in content.infolist()) < LARGEST_BYTES
        assert {name.partition("/")[0] for name in content.namelist()} == {
            "workflow_api",
            "workflow_api_channel",
            "workflow_api_testing",
            f"workflow_api_protos-{STUBS['project']['version']}.dist-info",
        }
        environment = tmp_path / "environment"
        venv.create(environment, symlinks=True)
        [packages] = environment.glob("lib/python*/site-packages")
        content.extractall(packages)
    required = [re.split("[<>=]", text)[0] for text in STUBS["project"]["dependencies"]]
    for name in with_requirements(required):
        link(name, packages)
    done = subprocess.run(
        [environment / "bin" / "python", "-I", "-W", "error", "-c", CALLER],
        # gRPC prints that the server ended, where that comes before the end of the channel.
        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        ["more", "test_backend needs the service in this environment: workflow-api[testing]"],
    )
