"""Pages that delete a definition: they ask first, and name what uses it."""

from typing import Any

import pytest

from console.visit import Redirect, View
from contract.refusals import Refusal
from contract.roles import roles_of as roles_of_rpc
from tests.unit.console.seen import MemoryServices, answered, html, roles_of
from workflow_api.v1.definitions_pb2 import DeleteDefinitionRequest, DeleteDefinitionResponse, Manifest

EVIL = "<script>alert(1)</script>"
HERE = {"definition_id": "agt_1"}
DELETE, RESTORE = "DefinitionsService/DeleteDefinition", "DefinitionsService/RestoreWorkflowVersion"


def services(**answers: Any) -> MemoryServices:
    named = {
        "GetManifest": Manifest(kind="Agent", id="agt_1", name=EVIL, version=2, newest_version=2, text="kind: Agent\n"),
        "DeleteDefinition": DeleteDefinitionResponse(kind="Agent", id="agt_1", name="counter"),
        **answers,
    }
    return MemoryServices({f"DefinitionsService/{name}": answer for name, answer in named.items()})


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
