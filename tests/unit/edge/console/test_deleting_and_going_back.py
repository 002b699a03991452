"""Pages that delete a definition, go back to a version, and show the code of an agent: they ask before they change."""

import asyncio
import io
import zipfile
from typing import Any

import pytest

from contract.roles import roles_of as roles_of_rpc
from edge.console.visit import Download, Redirect, View
from edge.errors import Refusal
from tests.unit.edge.console.seen import MemoryServices, answered, html, roles_of
from workflow_api.v1.definitions_pb2 import (
    AgentCode,
    DeleteDefinitionRequest,
    DeleteDefinitionResponse,
    Manifest,
    RestoreWorkflowVersionResponse,
)
from workflow_api.v1.workflows_pb2 import AppliedResource

EVIL = "<script>alert(1)</script>"
HERE = {"definition_id": "agt_1"}
DELETE, RESTORE, CODE = (
    f"DefinitionsService/{name}" for name in ("DeleteDefinition", "RestoreWorkflowVersion", "GetAgentCode")
)
UNIFIED = f"--- one\n+++ two\n@@ -1 +1 @@\n-old {EVIL}\n+new {EVIL}\n"


def services(**answers: Any) -> MemoryServices:
    manifest = Manifest(kind="Agent", id="agt_1", name=EVIL, version=2, newest_version=2, text="kind: Agent\n")
    named = {
        "GetManifest": manifest,
        "DeleteDefinition": DeleteDefinitionResponse(kind="Agent", id="agt_1", name="counter"),
        "RestoreWorkflowVersion": restored(),
        "GetAgentCode": AgentCode(id="agt_1", name="counter", version=2, archive=archive()),
        **answers,
    }
    return MemoryServices({f"DefinitionsService/{name}": answer for name, answer in named.items()})


def restored(outcome: str = "updated") -> RestoreWorkflowVersionResponse:
    fields: Any = {"previous_version": 3, "manifest_difference": UNIFIED}
    return RestoreWorkflowVersionResponse(
        workflow=AppliedResource(kind="Workflow", name="W", id="wf_1", version=4, outcome=outcome, **fields),
        pinned=[
            AppliedResource(
                kind="Agent",
                name="counter",
                version=1,
                previous_version=2,
                manifest_difference=UNIFIED.replace("old", "x"),
            )
        ],
    )


def archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        made.writestr("main.py", f"# {EVIL}\n")
        made.writestr("lib/data.bin", b"\xff\xfe")
    return target.getvalue()


@pytest.mark.parametrize(
    ("path", "rpc"),
    [
        ("/agents/{definition_id}/delete", DELETE),
        ("/workflows/{definition_id}/delete", DELETE),
        ("/resources/graphs/{definition_id}/delete", DELETE),
        ("/workflows/{definition_id}/restore", RESTORE),
    ],
)
def test_changes_are_for_those_whose_role_may_make_them(path: str, rpc: str) -> None:
    assert roles_of("GET", path) == roles_of("POST", path) == roles_of_rpc(rpc)


def test_a_deletion_is_asked_before_it_is_made() -> None:
    backend = services()
    page = html(answered(backend, "GET", "/agents/{definition_id}/delete", HERE))
    assert not backend.asked(DELETE)
    assert 'action="/agents/agt_1/delete"' in page
    assert EVIL not in page
    answer = answered(backend, "POST", "/agents/{definition_id}/delete", HERE)
    assert answer == Redirect("/agents", "The agent counter is deleted. Its audit trail stays.")
    assert backend.asked(DELETE) == [DeleteDefinitionRequest(kind="Agent", definition="agt_1")]


def test_who_uses_a_definition_is_named_in_place_of_its_deletion() -> None:
    backend = services(DeleteDefinition=Refusal("invalid_request", f"It is used by workflow '{EVIL}'."))
    answer = answered(backend, "POST", "/agents/{definition_id}/delete", HERE)
    assert isinstance(answer, View)
    assert answer.status == 409
    assert "used by workflow" in html(answer)
    assert EVIL not in html(answer)


def test_what_going_back_changes_is_shown_first() -> None:
    backend = services()
    page = html(answered(backend, "GET", "/workflows/{definition_id}/restore", HERE, query={"version": "1"}))
    assert [request.dry_run for request in backend.asked(RESTORE)] == [True]
    assert "Agent counter: version 1 in place of 2" in page
    assert 'name="expected" value="3"' in page
    assert EVIL not in page
    form = {"version": "1", "expected": "3"}
    answer = answered(backend, "POST", "/workflows/{definition_id}/restore", HERE, form=form)
    assert answer == Redirect("/workflows/wf_1", "Version 4 is active, with all that version 1 used.")
    request = backend.asked(RESTORE)[-1]
    assert (request.version, request.expected_version, request.dry_run) == (1, 3, False)


def test_a_version_saved_meanwhile_is_shown_before_it_is_replaced() -> None:
    def newer(request: Any) -> RestoreWorkflowVersionResponse:
        if not request.dry_run:
            raise Refusal("invalid_request")
        return restored()

    backend = services(RestoreWorkflowVersion=newer)
    form = {"version": "1", "expected": "2"}
    answer = answered(backend, "POST", "/workflows/{definition_id}/restore", HERE, form=form)
    assert isinstance(answer, View)
    assert answer.status == 409
    assert "Somebody saved another version meanwhile" in html(answer)


def test_the_files_of_an_agents_code_are_shown_and_downloaded() -> None:
    path = "/agents/{definition_id}/code"
    page = html(answered(services(), "GET", path, HERE, query={"version": "2"}))
    assert 'href="/agents/agt_1/code?version=2&amp;file=lib%2Fdata.bin"' in page
    assert "alert(1)" in page
    assert EVIL not in page
    binary = html(answered(services(), "GET", path, HERE, query={"version": "2", "file": "lib/data.bin"}))
    assert "It is no text." in binary
    assert answered(services(), "GET", path, HERE, query={"file": "../x"}).status == 404  # type: ignore[union-attr]
    answer = answered(services(), "GET", f"{path}/download", HERE)
    assert isinstance(answer, Download)
    assert answer.file_name == "counter-2.zip"

    async def content() -> bytes:
        return b"".join([part async for part in answer.parts])

    assert asyncio.run(content()) == archive()
