"""Roots of environments, from the manifest to the step that runs their programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.resources.roots.store import RootStore
from backend.services.workflows import resources_sql
from backend.services.workflows.environments_servicer import EnvironmentsServicer
from backend.services.workflows.manifests.writer import manifest_text
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from tests.support.roots import PROGRAM, make_root
from workflow_api.v1 import environments_pb2

AGENT = f"""
import subprocess
def run(context):
    return subprocess.run(["{PROGRAM}", "-i", "FOUND=here"], capture_output=True, text=True, check=True).stdout
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("source"))


@pytest.fixture
def roots(idle_world: RuntimeWorld) -> RootStore:
    return RootStore(idle_world.folder / "data" / "packages" / "roots")


def apply(world: RuntimeWorld, root: str | None) -> None:
    environment = {"kind": "Environment", "name": "tools", **({} if root is None else {"root": root})}
    agent = {"kind": "Agent", "name": "calls", "type": "python", "code": AGENT}
    workflow = manifest("Calls", [{**agent_step("call", "calls"), "environment": "tools"}], result={"step": "call"})
    world.workflows |= world.apply("\n---\n".join([json.dumps(environment), json.dumps(agent), workflow]))


def stored(world: RuntimeWorld) -> dict[str, Any]:
    row = world.services.database.read(lambda tx: resources_sql.resource(tx, "environment", "tools"))
    assert row is not None
    return {**json.loads(row.definition), "of_version": row.version}


def builds(world: RuntimeWorld) -> environments_pb2.ListEnvironmentBuildsResponse:
    service = environments_pb2.DESCRIPTOR.services_by_name["EnvironmentsService"]
    answer = Caller(EnvironmentsServicer(world.services), service)(
        "ListEnvironmentBuilds", environments_pb2.ListEnvironmentBuildsRequest()
    )
    assert isinstance(answer, environments_pb2.ListEnvironmentBuildsResponse)
    return answer


def test_a_step_runs_programs_of_its_environments_root(
    idle_world: RuntimeWorld, roots: RootStore, source: Path
) -> None:
    roots.add("small", source, 5)
    apply(idle_world, "small")
    idle_world.local_runtime.start()
    row = idle_world.until_ended(idle_world.started("Calls"))
    assert (row.status, json.loads(row.result)) == ("completed", "FOUND=here\n")


def test_a_root_that_the_machine_lacks_is_refused_and_changes_nothing(
    idle_world: RuntimeWorld, roots: RootStore, source: Path
) -> None:
    roots.add("small", source, 5)
    with pytest.raises(RefusedError) as refused:
        apply(idle_world, "other")
    assert list(refused.value.problems) == ["test.yaml:1: root"]
    assert idle_world.services.database.read(lambda tx: resources_sql.resource(tx, "environment", "tools")) is None


def test_a_version_has_the_digest_of_its_root_and_its_manifest_the_name(
    idle_world: RuntimeWorld, roots: RootStore, source: Path
) -> None:
    digest = roots.add("small", source, 5).digest
    apply(idle_world, "small")
    apply(idle_world, "small")
    definition = stored(idle_world)
    assert (definition["root"], definition["root_digest"], definition["of_version"]) == ("small", digest, 1)
    assert manifest_text("Environment", definition) == "kind: Environment\nname: tools\nroot: small\n"
    (item,) = (each for each in builds(idle_world).items if each.name == "tools")
    assert (item.root, item.root_digest) == ("small", digest)


def test_a_root_is_in_use_while_a_version_that_a_workflow_uses_names_it(
    idle_world: RuntimeWorld, roots: RootStore, source: Path
) -> None:
    for name in ("first", "second", "unused"):
        roots.add(name, source, 5)
        if name != "unused":
            apply(idle_world, name)
    assert list(builds(idle_world).roots_in_use) == ["first", "second"]


@pytest.mark.parametrize("present", [True, False])
def test_a_step_fails_where_its_root_differs_or_is_missing(
    idle_world: RuntimeWorld, roots: RootStore, source: Path, tmp_path: Path, present: bool
) -> None:
    wanted = roots.add("small", source, 5).digest
    apply(idle_world, "small")
    roots.remove("small")
    if present:
        (tmp_path / "other" / "usr").mkdir(parents=True)
        roots.add("small", tmp_path / "other", 5)
    idle_world.local_runtime.start()
    row = idle_world.until_ended(idle_world.started("Calls"))
    assert row.status == "failed"
    assert "the root 'small'" in row.error_message
    assert f"must have the digest {wanted}" in row.error_message or f"and must have {wanted}" in row.error_message
