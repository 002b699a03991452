"""`workflow-api environments roots`."""

from pathlib import Path

import pytest

from tests.support.roots import make_root
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import environments_pb2


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("source"))


def roots(*arguments: object) -> tuple[str, ...]:
    return ("environments", "roots", *map(str, arguments))


def test_a_root_is_added_listed_and_removed(backend: FakeBackend, source: Path, tmp_path: Path) -> None:
    backend.answers["ListEnvironmentBuilds"] = environments_pb2.ListEnvironmentBuildsResponse()
    added = command(*roots("add", "small", source, "--data", tmp_path, "--json"))
    assert (added.code, added.json["name"]) == (0, "small")
    assert (tmp_path / "packages" / "roots" / "small" / "root" / "usr").is_dir()
    listed = command(*roots("list", "--data", tmp_path, "--json"))
    assert listed.json == {"items": [added.json]}
    removed = command(*roots("remove", "small", "--data", tmp_path, "--grpc", backend.address))
    assert (removed.code, removed.out) == (0, "Removed 'small' from this machine.\n")
    assert command(*roots("list", "--data", tmp_path, "--json")).json == {"items": []}


def test_a_root_in_use_is_not_removed(backend: FakeBackend, source: Path, tmp_path: Path) -> None:
    backend.answers["ListEnvironmentBuilds"] = environments_pb2.ListEnvironmentBuildsResponse(roots_in_use=["small"])
    assert command(*roots("add", "small", source, "--data", tmp_path)).code == 0
    refused = command(*roots("remove", "small", "--data", tmp_path, "--grpc", backend.address))
    assert (refused.code, "The root 'small' is in use" in refused.err) == (1, True)
    assert (tmp_path / "packages" / "roots" / "small").is_dir()


@pytest.mark.parametrize(
    ("name", "source_name", "message"),
    [
        ("../up", "", "the name of a root must be 1 to 80 lowercase letters"),
        ("empty", "", "it has no folder usr"),
        ("missing", "missing.tar", "missing.tar: No such file or directory"),
    ],
)
def test_what_is_no_root_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, source_name: str, message: str
) -> None:
    (tmp_path / "given").mkdir()
    refused = command(*roots("add", name, tmp_path / "given" / source_name, "--data", tmp_path / "data"))
    assert (refused.code, message in refused.err) == (1, True), refused.err
    assert list((tmp_path / "data").rglob("*.*")) == []
