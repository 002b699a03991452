"""A client that openapi-python-client generates from the description, calling the service."""

import io
import json
import re
import tomllib
import uuid
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from tests.support.client import Caller, call
from tests.support.generated_client import GeneratedClient, generated, generated_project
from tests.support.service import Service

pytestmark = pytest.mark.long
CLIENTS_PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


@pytest.fixture(scope="module")
def description(service: Service) -> Any:
    return call(service.address, "GET", "/openapi.json").json()


@pytest.fixture(scope="module")
def client(description: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeneratedClient]:
    with generated(description, tmp_path_factory.mktemp("generated")) as client:
        yield client


class Session:
    """Calls of the generated client with one key."""

    def __init__(self, client: GeneratedClient, connection: Any) -> None:
        self._client = client
        self._connection = connection

    def __call__(self, tag: str, name: str, *path: str, **arguments: Any) -> Any:
        """The parsed body of an answer."""
        return self._client.operation(tag, name).sync_detailed(*path, client=self._connection, **arguments).parsed

    def model(self, name: str) -> Any:
        return getattr(self._client.package("models"), name)


@pytest.fixture
def session(client: GeneratedClient, description: Any, caller: Caller) -> Iterator[Session]:
    host, port = caller.address
    connection = client.package("client").AuthenticatedClient(
        base_url=f"http://{host}:{port}{description['servers'][0]['url']}",
        token=caller.key,
        headers={"X-Service-Key-External-Id": caller.external_id},
        raise_on_unexpected_status=True,
    )
    with connection:
        yield Session(client, connection)


def started(session: Session, workflow_id: str, **fields: Any) -> Any:
    body = session.model("StartRunBody")(**fields)
    return session("runs", "start_run", workflow_id, body=body, idempotency_key=uuid.uuid4().hex)


def test_the_client_generator_reports_no_warning(client: GeneratedClient) -> None:
    assert client.complaints == ""


def test_a_generated_project_has_the_valid_version_that_the_page_gives_it(description: Any, tmp_path: Path) -> None:
    [block] = re.findall(r"^```json\n(.*?)^```$", CLIENTS_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    project = generated_project(description, tmp_path, json.loads(block))
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    version = metadata.get("project", metadata.get("tool", {}).get("poetry", {}))["version"]
    assert str(Version(version)) == version == json.loads(block)["package_version_override"]


def test_every_refusal_of_every_route_has_the_type_of_the_envelope(client: GeneratedClient, description: Any) -> None:
    for item in description["paths"].values():
        for operation in item.values():
            name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation["operationId"])
            parse = client.operation(operation["tags"][0].lower(), name)._parse_response
            for status in (status for status in operation["responses"] if status >= "400"):
                assert f"response_{status}" in parse.__code__.co_varnames, (name, status)


def test_health_and_the_key_are_read(session: Session, caller: Caller) -> None:
    assert session("deployment", "get_health").status == "ok"
    key = session("keys", "get_me")
    assert key.key_id == caller.key_id
    assert isinstance(key.expires_at, datetime)
    assert "runs:create" in key.scopes
    assert key.workflow_access.mode == "all_active"


def test_workflows_are_read_with_their_policy_and_parameters(session: Session, flows: dict[str, str]) -> None:
    workflow_id = flows["Typed"]
    assert workflow_id in [item.workflow_id for item in session("workflows", "list_workflows", limit=100).items]
    workflow = session("workflows", "get_workflow", workflow_id)
    assert (workflow.pii_policy.mode, workflow.pii_policy.categories) == ("off", "all")
    assert workflow.pii_policy.stages == ["inputs", "steps", "outputs"]
    parameters = session("workflows", "list_parameters", workflow_id).parameters
    assert all(isinstance(parameter.name, str) for parameter in parameters)


def test_a_run_is_started_with_parameters_and_a_policy_override(session: Session, flows: dict[str, str]) -> None:
    policy = session.model("PiiPolicyOverride").from_dict({"mode": "detect", "categories": "all"})
    parameters = session.model("StartRunBodyParametersType0").from_dict({"seconds": 60})
    run = started(session, flows["Sleep"], parameters=parameters, pii_policy_override=policy)
    assert run.parameters["seconds"] == 60
    assert (run.pii_policy.mode, run.pii_policy.categories) == ("detect", "all")
    assert [stage.stage for stage in run.pii_redaction.stages] == run.pii_policy.stages
    assert session("outputs", "get_pii_redaction", run.run_id).counts["values"] == 0
    narrowed = {**run.pii_policy.to_dict(), "categories": ["PERSON"]}
    assert session.model("PiiPolicy").from_dict(narrowed).categories == ["PERSON"]


def test_runs_are_listed_by_their_filters(session: Session, caller: Caller, flows: dict[str, str]) -> None:
    reference = uuid.uuid4().hex
    run = started(session, flows["Echo"], client_reference=reference)
    caller.wait(run.run_id)

    def listed(**filters: Any) -> list[str]:
        return [item.run_id for item in session("runs", "list_runs", **filters).items]

    assert listed(client_reference=reference, status="completed", workflow_id=flows["Echo"]) == [run.run_id]
    assert listed(client_reference=reference, created_after=run.created_at - timedelta(seconds=1)) == [run.run_id]
    assert listed(client_reference=reference, created_before=run.created_at) == []
    assert listed(status="failed", client_reference=reference) == []
    assert session("runs", "list_runs", limit=1).items[0].labels.to_dict() == {}


def test_a_finished_run_is_read_with_its_steps_events_and_outputs(
    session: Session, caller: Caller, flows: dict[str, str]
) -> None:
    run_id = started(session, flows["Echo"], input_text="hello").run_id
    caller.wait(run_id)
    run = session("runs", "get_run", run_id)
    assert (run.status, run.result["text"], run.inputs_manifest) == ("completed", "hello", None)
    assert [step.kind for step in session("runs", "list_run_steps", run_id).items] == ["agent"]
    events = {event.type_: event for event in session("runs", "list_run_events", run_id).events}
    assert type(events["step.started"]).__name__ == "StepStartedEvent"
    assert (events["step.started"].data.attempt, events["step.completed"].data.outputs) == (1, 1)
    assert events["output.promoted"].data.additional_properties == {}
    outputs = session("outputs", "list_outputs", run_id).items
    echo = next(output for output in outputs if output.path == "echo/echo.txt")
    assert session("outputs", "get_output_content", run_id, echo.output_id).payload.read() == b"hello"
    bundle = session("outputs", "get_outputs_zip", run_id).payload.read()
    assert zipfile.ZipFile(io.BytesIO(bundle)).read("echo/echo.txt") == b"hello"


def test_a_parked_run_is_read_cancelled_and_erased(session: Session, caller: Caller, flows: dict[str, str]) -> None:
    run_id = started(session, flows["Park"]).run_id
    caller.wait(run_id, "waiting_for_approval")
    assert [approval.step for approval in session("runs", "list_run_approvals", run_id).items] == ["ask"]
    assert session("runs", "cancel_run", run_id, body=session.model("CancelRunBody")()).run_id == run_id
    caller.wait(run_id)
    erased = session("runs", "erase_run_data", run_id, body=session.model("EraseRunDataBody")(reason="over"))
    assert erased.data_purged_at == session("runs", "get_run", run_id).data_purged_at


def test_refusals_are_envelopes_with_their_details(session: Session, caller: Caller, flows: dict[str, str]) -> None:
    missing = session("runs", "get_run", "run_none")
    assert isinstance(missing, session.model("Error"))
    assert (missing.error.code, bool(missing.error.details)) == ("run_not_found", False)
    problems = session("runs", "list_runs", limit=0).error.details
    assert [(problem.name, bool(problem.reason)) for problem in problems] == [("limit", True)]
    run_id = started(session, flows["Park"]).run_id
    refused = session("outputs", "list_outputs", run_id)
    assert refused.error.code == "run_not_terminal"
    assert refused.error.details["status"] in {"queued", "running", "waiting_for_approval"}
