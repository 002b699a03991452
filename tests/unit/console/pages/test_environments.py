import asyncio
import json
from typing import Any

import pytest

from console.pages.environments import stream
from console.visit import ADMINISTRATORS, FileDownload, PageEvents, Redirect, Visit
from contract.refusals import Refusal
from edge.admission.trial import try_call
from tests.unit.console.seen import (
    ADMINISTRATOR,
    UNSEEN,
    MemoryServices,
    answered,
    definition_answers,
    html,
    roles_of,
)
from workflow_api.v1 import environments_pb2
from workflow_api.v1.definitions_pb2 import DefinitionUse
from workflow_api.v1.environments_pb2 import (
    EnvironmentBuild,
    EnvironmentBuildLog,
    ListEnvironmentBuildsResponse,
    MachineBuild,
)
from workflow_api.v1.workflows_pb2 import ApplyManifestsResponse, Resource, ResourceDefinition

EVIL = f"<script>alert(1)</script>{UNSEEN}"
LIST = "/resources/environments"
ONE = f"{LIST}/{{resource}}"
HERE = {"resource": "env_1"}
FAILED = environments_pb2.ENVIRONMENT_BUILD_STATE_FAILED
BUILDING = environments_pb2.ENVIRONMENT_BUILD_STATE_BUILDING
BUILT = environments_pb2.ENVIRONMENT_BUILD_STATE_BUILT


def build(state: Any = BUILT, **other: Any) -> EnvironmentBuild:
    fields = {"packages": ["pandas==2.3.*"], "locked": ["pandas==2.3.3"], "machines": [MachineBuild(machine="host-a")]}
    return EnvironmentBuild(environment_id="env_1", name="tables", status="active", state=state, **{**fields, **other})


def services(found: EnvironmentBuild, version: int = 3) -> MemoryServices:
    resource = Resource(resource_id="env_1", name="tables", version=3)
    python = {"packages": ["pandas==2.3.*"], "preload": ["pandas"]}
    fields = {"memory_mb": 2048, "timeout_seconds": 60, "workspace_mb": 512, "status": "active", "python": python}
    definition = ResourceDefinition(resource=resource, shown_version=version, definition=json.dumps(fields))
    use = DefinitionUse(workflow_id="wf_1", workflow_name="Digest", workflow_version=4, version=2, agents=["counter"])
    return MemoryServices(
        {
            "WorkflowsService/GetResource": definition,
            "EnvironmentsService/GetEnvironmentBuild": found,
            "EnvironmentsService/BuildEnvironment": found,
            "EnvironmentsService/ListEnvironmentBuilds": ListEnvironmentBuildsResponse(items=[found]),
            **definition_answers([use], version=version, newest_version=3),
        }
    )


def test_the_list_says_which_environments_could_not_be_built() -> None:
    page = html(answered(services(build(FAILED)), "GET", LIST))
    assert 'href="/resources/environments/env_1"' in page
    assert "failed" in page
    assert "pandas==2.3.*" in page


def test_an_environment_shows_its_bounds_packages_preload_and_who_uses_it() -> None:
    machine = MachineBuild(machine="host-a", state=FAILED, message=EVIL)
    page = html(answered(services(build(FAILED, message=EVIL, machines=[machine])), "GET", ONE, HERE))
    for shown in (
        "2,048 MiB",
        "pandas==2.3.3",
        "host-a",
        'href="/workflows/wf_1"',
        'href="/agents/counter"',
        "Preloaded modules",
        "alert(1)",
    ):
        assert shown in page
    assert EVIL not in page
    assert "data-stream" not in page


def test_an_older_version_leads_to_its_neighbours() -> None:
    page = html(answered(services(build(), version=2), "GET", ONE, HERE, query={"version": "2"}))
    assert "?version=1" in page
    assert "?version=3" in page
    assert "This is version 2" in page
    assert 'href="/resources/environments/env_1/edit?from=2"' in page


def test_another_try_of_a_build_is_asked_for_by_name() -> None:
    backend = services(build(FAILED))
    answer = answered(backend, "POST", f"{ONE}/build", HERE)
    assert isinstance(answer, Redirect)
    assert answer.to == "/resources/environments/env_1"
    (asked,) = backend.asked("EnvironmentsService/BuildEnvironment")
    assert asked.name == "tables"
    assert roles_of("POST", f"{ONE}/build") == ADMINISTRATORS


@pytest.mark.parametrize("text", [EVIL + "x" * 30_000 + "Installed 1 package", None])
def test_the_end_of_a_builds_log_is_shown_and_all_of_it_downloaded(text: str | None) -> None:
    backend = services(build())
    backend.answers["EnvironmentsService/GetEnvironmentBuildLog"] = EnvironmentBuildLog(text=text)
    asked: dict[str, Any] = {"query": {"machine": "host a"}}
    page = html(answered(backend, "GET", f"{ONE}/log", HERE, **asked))
    assert ("Installed 1 package" in page) == ("log/download?machine=host+a" in page) == bool(text)
    assert ("There is no log" in page) == (text is None)
    assert EVIL not in page
    sent = answered(backend, "GET", f"{ONE}/log/download", HERE, **asked)
    assert isinstance(sent, FileDownload)
    assert (sent.file_name, sent.length) == ("tables-host a.log", len((text or "").encode()))
    assert backend.asked("EnvironmentsService/GetEnvironmentBuildLog")[0].machine == "host a"


def test_a_machine_that_has_built_nothing_has_no_log() -> None:
    backend = services(build())
    backend.answers["EnvironmentsService/GetEnvironmentBuildLog"] = Refusal("not_found", "It has not begun.")
    assert "It has not begun." in html(answered(backend, "GET", f"{ONE}/log", HERE))


@pytest.mark.parametrize(("do", "status"), [("activate", "active"), ("deactivate", "inactive")])
def test_an_environment_is_switched_by_a_version_that_differs_in_its_status(do: str, status: str) -> None:
    backend = services(build())
    backend.answers |= definition_answers(
        text="kind: Environment\nname: tables\nstatus: inactive\npython:\n  packages: []\n",
        kind="Environment",
        name="tables",
        newest_version=3,
    )
    backend.answers["WorkflowsService/ApplyManifests"] = ApplyManifestsResponse()
    answer = answered(backend, "POST", f"{ONE}/{do}", HERE)
    assert isinstance(answer, Redirect)
    (asked,) = backend.asked("WorkflowsService/ApplyManifests")
    assert asked.files[0].content == f"kind: Environment\nname: tables\npython:\n  packages: []\nstatus: {status}\n"
    assert [(each.name, each.version) for each in asked.expected] == [("tables", 3)]
    assert roles_of("POST", f"{ONE}/{do}") == ADMINISTRATORS


def test_a_refresh_reads_the_build_and_leaves_versions_and_uses() -> None:
    backend = services(build(BUILDING))
    assert "host-a" in html(answered(backend, "GET", ONE, HERE, refresh=True))
    assert not [rpc for rpc, _ in backend.calls if rpc.startswith("DefinitionsService/")]


def test_the_page_is_refreshed_until_the_build_has_ended() -> None:
    backend = services(build(BUILDING))
    assert 'data-stream="/resources/environments/env_1/stream"' in html(answered(backend, "GET", ONE, HERE))

    async def events() -> list[str]:
        answer = await stream(Visit(user=ADMINISTRATOR, services=backend, path=HERE, try_call=try_call))
        assert isinstance(answer, PageEvents)
        seen = [(await anext(answer.events))[0]]
        backend.answers["EnvironmentsService/GetEnvironmentBuild"] = build(BUILT)
        return seen + [name async for name, _ in answer.events]

    assert asyncio.run(events()) == ["refresh", "refresh", "end"]


def test_an_environment_is_shown_with_the_set_that_owns_it() -> None:
    backend = services(build())
    assert "owns it" not in html(answered(backend, "GET", ONE, HERE))
    answer: Any = backend.answers["WorkflowsService/GetResource"]
    answer.resource.set_name = "billing"
    assert "Set <strong>billing</strong> owns it" in html(answered(backend, "GET", ONE, HERE))
