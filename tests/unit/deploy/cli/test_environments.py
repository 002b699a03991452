"""`workflow-api environments`."""

from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import environments_pb2, workflows_pb2
from workflow_api.v1.environments_pb2 import (
    ENVIRONMENT_BUILD_STATE_BUILDING,
    ENVIRONMENT_BUILD_STATE_BUILT,
    ENVIRONMENT_BUILD_STATE_FAILED,
    EnvironmentBuild,
    EnvironmentBuildState,
    MachineBuild,
)


def build(state: EnvironmentBuildState.ValueType) -> EnvironmentBuild:
    machine = MachineBuild(machine="worker-1", state=state, bytes=3 * 2**20)
    return EnvironmentBuild(
        name="tables", version=2, status="active", state=state, packages=["pandas==2.3.*"], machines=[machine]
    )


def test_environments_are_listed_with_the_state_of_their_packages(backend: FakeBackend) -> None:
    items = [build(ENVIRONMENT_BUILD_STATE_BUILDING)]
    backend.answers["ListEnvironmentBuilds"] = environments_pb2.ListEnvironmentBuildsResponse(items=items)
    shown = command("environments", "list", "--grpc", backend.address).out.splitlines()
    assert shown[1].split() == ["tables", "2", "active", "building", "pandas==2.3.*"]


def test_an_environment_is_shown_with_what_each_machine_has(backend: FakeBackend) -> None:
    backend.answers["GetEnvironmentBuild"] = build(ENVIRONMENT_BUILD_STATE_BUILT)
    definition = workflows_pb2.ResourceDefinition(definition='{"memory_mb": 2048}', used_by=["Digest", "Report"])
    backend.answers["GetResource"] = definition
    shown = command("environments", "show", "tables", "--grpc", backend.address).out.splitlines()
    assert shown[:2] == ["memory_mb: 2048", "# used by Digest, Report"]
    assert shown[-1].split() == ["worker-1", "built", "3.0", "MiB", "-", "-"]


def test_a_build_is_waited_for(backend: FakeBackend) -> None:
    backend.answers["BuildEnvironment"] = build(ENVIRONMENT_BUILD_STATE_BUILDING)
    states = (ENVIRONMENT_BUILD_STATE_BUILDING, ENVIRONMENT_BUILD_STATE_BUILT)
    backend.answers["GetEnvironmentBuild"] = [build(state) for state in states]
    built = command("environments", "build", "tables", "--grpc", backend.address, "--json")
    assert (built.code, built.json["state"]) == (0, "built")


def test_a_build_that_fails_is_a_failure_of_the_command(backend: FakeBackend) -> None:
    backend.answers["BuildEnvironment"] = build(ENVIRONMENT_BUILD_STATE_BUILDING)
    backend.answers["GetEnvironmentBuild"] = build(ENVIRONMENT_BUILD_STATE_FAILED)
    assert command("environments", "build", "tables", "--grpc", backend.address).code == 1


def test_a_build_that_nobody_waits_for_is_only_asked_for(backend: FakeBackend) -> None:
    backend.answers["BuildEnvironment"] = build(ENVIRONMENT_BUILD_STATE_BUILDING)
    asked = command("environments", "build", "tables", "--no-wait", "--grpc", backend.address, "--json")
    assert (asked.code, asked.json["state"]) == (0, "building")
