"""Inputs of a run as people see them: swept where its policy redacts, as given on request, which is audited."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.common.clock import MAX_MS
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.services.audit import sql as audit_sql
from backend.services.previews.servicer import Previews, PreviewsServicer
from backend.services.previews.values import REVEALED
from backend.storage.database import Tx
from backend.storage.object_keys import run_prefix
from backend.storage.tables.deployment import AuditRow
from contract.metadata import ACTOR, PERSON
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from workflow_api.v1 import previews_pb2, runs_pb2

MAIL = "jane.roe@example.com"
SWEPT = "[EMAIL_ADDRESS]"
STAGES = [["inputs"], ["steps"], ["outputs"]]


class Desk:
    """A person's view of what runs were given."""

    def __init__(self, world: RuntimeWorld, folder: Path) -> None:
        self.previews = Previews(world.services, world.objects, world.redactor, folder / "previews")
        service = previews_pb2.DESCRIPTOR.services_by_name["PreviewsService"]
        self.call = Caller(PreviewsServicer(self.previews), service)

    def swept(self, run_id: str) -> previews_pb2.RunInputs:
        found: list[previews_pb2.RunInputs] = []

        def prepared() -> bool:
            found[:] = [self.call("GetRunInputs", previews_pb2.GetRunInputsRequest(run_id=run_id))]
            return not found[0].preparing

        until(prepared, "the inputs")
        return found[0]

    def revealed(self, run_id: str) -> previews_pb2.RunInputs:
        request = previews_pb2.RevealRunInputsRequest(run_id=run_id)
        found: previews_pb2.RunInputs = self.call("RevealRunInputs", request)
        return found

    def close(self) -> None:
        self.previews.close()


@pytest.fixture
def desk(world: RuntimeWorld, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(world, tmp_path / "desk")
    yield desk
    desk.close()


def ran(world: RuntimeWorld, policy: dict[str, Any] | None) -> str:
    run_id = world.run(
        "Given",
        [agent_step("count")],
        workflow={
            "parameters": [{"name": "who", "type": "string"}, {"name": "more", "type": "json"}],
            **({"pii_policy": policy} if policy else {}),
        },
        parameters={"who": MAIL, "more": {"list": [MAIL]}},
        input_text=f"from {MAIL}",
    )
    world.until_ended(run_id)
    return run_id


def read_by(world: RuntimeWorld, run_id: str, person: str | None) -> runs_pb2.Run:
    """Returns a run as a person gets it, or a service for nobody."""
    names = () if person is None else ((PERSON, person),)
    found: runs_pb2.Run = world.runs.with_metadata(
        "GetRun", runs_pb2.GetRunRequest(run_id=run_id), ((ACTOR, "user:ana"), *names)
    )
    return found


def revelations(world: RuntimeWorld) -> list[tuple[str, str]]:
    """Returns the actor and the target of each record of it in the audit trail."""

    def trail(tx: Tx) -> list[AuditRow]:
        filters = audit_sql.Filters(None, None, REVEALED, "")
        rows, _ = audit_sql.trail(tx, filters, since=0, before=audit_sql.AuditPosition(MAX_MS, ""), limit=9)
        return rows

    return [(row.actor, row.target) for row in world.services.database.read(trail)]


@pytest.mark.parametrize("stages", STAGES)
def test_where_the_policy_redacts_people_see_swept_inputs_whatever_its_stages(
    world: RuntimeWorld, desk: Desk, stages: list[str]
) -> None:
    run_id = ran(world, {"mode": "redact", "stages": stages})
    found = desk.swept(run_id)
    assert json.loads(found.parameters) == {"who": SWEPT, "more": {"list": [SWEPT]}}
    assert (found.input_text, found.redacted) == (f"from {SWEPT}", True)


@pytest.mark.parametrize("policy", [None, {"mode": "detect", "stages": ["inputs"]}])
def test_where_the_policy_replaces_nothing_people_see_inputs_as_they_were_given(
    world: RuntimeWorld, desk: Desk, policy: dict[str, Any] | None
) -> None:
    run_id = ran(world, policy)
    found = desk.swept(run_id)
    assert (json.loads(found.parameters)["who"], found.input_text) == (MAIL, f"from {MAIL}")
    assert read_by(world, run_id, "ana").input_text == f"from {MAIL}"
    assert desk.revealed(run_id).input_text == f"from {MAIL}"
    assert revelations(world) == []


def test_a_run_that_redacts_leaves_a_person_no_inputs_and_gives_its_caller_its_own(world: RuntimeWorld) -> None:
    run_id = ran(world, {"mode": "redact", "stages": ["inputs"]})
    assert MAIL not in str(read_by(world, run_id, "ana"))
    for given in (world.get(run_id), read_by(world, run_id, None)):
        assert (json.loads(given.parameters)["who"], given.input_text) == (MAIL, f"from {MAIL}")


def test_inputs_that_are_revealed_are_audited(world: RuntimeWorld, desk: Desk) -> None:
    run_id = ran(world, {"mode": "redact", "stages": ["inputs"]})
    found = desk.revealed(run_id)
    assert (json.loads(found.parameters)["who"], found.redacted) == (MAIL, False)
    assert revelations(world) == [("tester", run_id)]


def test_inputs_are_swept_once_and_are_gone_with_the_runs_data(
    world: RuntimeWorld, desk: Desk, own_redactor: ConfinedRedactor
) -> None:
    run_id = ran(world, {"mode": "redact", "stages": ["inputs"]})
    first = desk.swept(run_id)
    own_redactor.close()
    assert desk.swept(run_id) == first
    world.erase(run_id)
    until(lambda: not world.stored_below(run_prefix(run_id)).exists(), "the removal")
    for ask in (desk.swept, desk.revealed):
        with pytest.raises(RefusedError) as caught:
            ask(run_id)
        assert caught.value.reason == "not_found"


def test_inputs_that_cannot_be_swept_are_not_shown_and_the_reason_is(
    world: RuntimeWorld, desk: Desk, own_redactor: ConfinedRedactor
) -> None:
    run_id = ran(world, {"mode": "redact", "stages": ["outputs"]})
    own_redactor.close()
    found = desk.swept(run_id)
    assert found.problem.startswith("They could not be swept for personal data")
    assert MAIL not in str(found)
