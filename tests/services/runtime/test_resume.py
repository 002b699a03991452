"""A resumed run reuses the completed steps of an ended run of which nothing has changed, and executes the others."""

import itertools
import json
from typing import Any, Final

import pytest
from sqlalchemy import bindparam, delete, update

from backend.services.uploads.rules import PART_BYTES
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.files import outputs
from backend.storage.tables.segments import steps as steps_table
from contract.metadata import ACTOR, PERSON
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.services.runtime.uploading import ANA, Person, ana, zipped
from tests.support.poll import until
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket
from workflow_api.v1 import keys_pb2, runs_pb2, workflows_pb2

__all__ = ["ana", "serve_bucket"]

AGENTS: Final = """
kind: Agent
name: dice
type: python
code: |
  import random
  def run(context):
      (context.outputs / "rolled.txt").write_text(str(random.random()))
      (context.shared / "kept.txt").write_text("for later")
      return random.random()
---
kind: Agent
name: unlucky
type: python
code: |
  def run(context):
      files = {path.relative_to(context.files).as_posix(): path.read_text() for path in context.files.rglob("*.txt")}
      if not context.parameters.get("lucky"):
          raise ValueError("no luck")
      return {"needs": context.needs, "files": files}
"""
LUCK: Final = [{"name": "lucky", "type": "boolean", "default": False}]
_numbers = itertools.count()


def flow(world: RuntimeWorld, name: str, *, last: str = "unlucky", **fields: Any) -> None:
    """A workflow of which the step `last` fails, behind steps that never return a value twice."""
    steps = [agent_step("roll", "dice"), agent_step("last", last, "roll", "side"), agent_step("side", "dice")]
    given = {"parameters": LUCK, "result": {"step": "last"}, **fields}
    world.apply(AGENTS)
    world.workflows |= world.apply(manifest(name, given.pop("steps", steps), **given))


def failed(world: RuntimeWorld, name: str, **fields: Any) -> str:
    run_id = world.started(name, **fields)
    assert world.until_ended(run_id).status == "failed"
    return run_id


def resume(world: RuntimeWorld, run_id: str, **fields: Any) -> runs_pb2.ResumeRunResponse:
    key = fields.pop("idempotency_key", f"resume-{next(_numbers)}")
    request = runs_pb2.ResumeRunRequest(run_id=run_id, idempotency_key=key, **fields)
    answer: runs_pb2.ResumeRunResponse = world.runs("ResumeRun", request)
    return answer


def mended(world: RuntimeWorld) -> None:
    """Makes the agent that failed one that does not."""
    world.apply(AGENTS.replace('context.parameters.get("lucky")', "True"))


def why(answer: runs_pb2.ResumeRunResponse) -> dict[str, str]:
    return {step.step: step.why for step in answer.executed}


def roll(world: RuntimeWorld, run_id: str) -> tuple[str, str]:
    """Path and digest of what the step `roll` left."""
    (row,) = world.dump(f"outputs WHERE run_id = '{run_id}' AND step = 'roll'")
    return row.path, row.sha256


def contents(world: RuntimeWorld, run_id: str) -> dict[str, bytes]:
    """What the outputs of a run hold, by path."""
    rows = world.dump(f"outputs WHERE run_id = '{run_id}'")
    return {row.path: b"".join(world.objects.open_range(row.object_key, 0, row.size_bytes)) for row in rows}


def test_completed_steps_are_reused_with_their_values_files_and_digests(world: RuntimeWorld) -> None:
    flow(world, "Reused")
    ended = failed(world, "Reused", client_reference="order 7", labels={"team": "a"}, input_text="said")
    mended(world)
    answer = resume(world, ended)
    assert (list(answer.reused), why(answer)) == (["roll", "side"], {"last": f"Its status in run {ended} is failed."})
    run_id = answer.run.summary.run_id
    row = world.until_ended(run_id)
    assert (row.status, row.steps_completed, row.key_id, row.input_text) == ("completed", 3, world.key, "said")
    value = world.dump(f"steps WHERE run_id = '{ended}' AND step = 'roll'")[0].value
    result = json.loads(row.result)
    assert json.dumps(result["needs"]["roll"]) == value
    assert set(result["files"]) == {f"{step}/{name}.txt" for step in ("roll", "side") for name in ("rolled", "kept")}
    assert roll(world, run_id) == roll(world, ended)
    run, before = world.get(run_id), world.get(ended)
    assert (run.resumed_from, before.resumed_by) == (ended, run_id)
    assert not run.HasField("resumed_by")
    assert not before.HasField("resumed_from")
    assert (run.summary.client_reference, dict(run.summary.labels)) == ("order 7", {"team": "a"})
    steps = world.steps(run_id)
    assert {name: step.reused_from for name, step in steps.items()} == {"roll": ended, "last": "", "side": ended}
    assert steps["roll"].status == runs_pb2.STEP_STATUS_COMPLETED
    reused = [event for event in world.events(run_id, page_size=500).events if event.type == "step.reused"]
    assert [(event.step, json.loads(event.data)) for event in reused] == [
        (step, {"run_id": ended, "outputs": 1}) for step in ("roll", "side")
    ]
    assert [event.step for event in world.events(run_id, page_size=500).events if event.type == "step.started"] == [
        "last"
    ]


def test_a_dry_run_answers_what_would_be_reused_and_starts_nothing(world: RuntimeWorld) -> None:
    flow(world, "Dry")
    ended = failed(world, "Dry")
    before = len(world.dump("runs"))
    answer = resume(world, ended, dry_run=True, idempotency_key="")
    assert (list(answer.reused), why(answer)) == (["roll", "side"], {"last": f"Its status in run {ended} is failed."})
    assert (answer.version, answer.HasField("run"), len(world.dump("runs"))) == (1, False, before)


def test_one_idempotency_key_starts_one_run(world: RuntimeWorld) -> None:
    flow(world, "Once")
    ended = failed(world, "Once")
    first, again = (resume(world, ended, idempotency_key="once") for _ in range(2))
    assert first.run.summary.run_id == again.run.summary.run_id
    assert (first.replayed, again.replayed, list(again.reused)) == (False, True, ["roll", "side"])
    assert resume(world, ended, idempotency_key="once", parameters="{}").replayed
    assert not world.start("Once", "once").replayed
    with pytest.raises(RefusedError) as refused:
        resume(world, ended, idempotency_key="once", from_step="side")
    assert refused.value.reason == "idempotency_conflict"


def test_a_step_and_all_that_need_it_are_executed_from_a_step_on(world: RuntimeWorld) -> None:
    flow(world, "From")
    ended = failed(world, "From")
    answer = resume(world, ended, from_step="roll")
    assert list(answer.reused) == ["side"]
    assert why(answer)["roll"] == "The run is resumed from this step."
    run_id = answer.run.summary.run_id
    world.until_ended(run_id)
    assert roll(world, run_id) != roll(world, ended)
    with pytest.raises(RefusedError) as refused:
        resume(world, ended, from_step="none", again=True)
    assert refused.value.problems == {"from_step": "must be a step of version 1: roll, last, side"}


def test_another_value_of_a_parameter_has_every_step_executed(world: RuntimeWorld) -> None:
    flow(world, "Given")
    ended = failed(world, "Given")
    answer = resume(world, ended, parameters='{"lucky": true}')
    assert not answer.reused
    assert why(answer)["side"] == "The value of parameter 'lucky' has changed."
    assert world.until_ended(answer.run.summary.run_id).status == "completed"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"needs": ["side"]}, "Its definition has changed."),
        ({"environment": "other"}, "Its environment has changed."),
        ({"agent": "echo"}, "Its agent has changed."),
    ],
)
def test_a_step_that_has_changed_and_those_that_need_it_are_executed(
    world: RuntimeWorld, changed: dict[str, Any], reason: str
) -> None:
    flow(world, "Changed")
    ended = failed(world, "Changed")
    world.apply("{kind: Environment, name: other, memory_mb: 1769}")
    steps = [
        agent_step("side", "dice"),
        agent_step("roll", "dice") | changed,
        agent_step("last", "unlucky", "roll", "side"),
    ]
    flow(world, "Changed", steps=steps)
    answer = resume(world, ended, dry_run=True)
    assert (list(answer.reused), answer.version) == (["side"], 2)
    assert why(answer)["roll"] == reason
    assert list(resume(world, ended, dry_run=True, version=1).reused) == ["roll", "side"]


def test_approvals_already_given_are_reused_where_what_they_rest_on_is(world: RuntimeWorld) -> None:
    steps = [agent_step("roll", "dice"), gate("review", "roll"), agent_step("last", "unlucky", "review", "roll")]
    flow(world, "Approved", steps=steps)
    ended = world.started("Approved")
    world.until_status(ended, "waiting_for_approval")
    decision = runs_pb2.DecideApprovalRequest(approval_id=world.approvals(ended)["review"], approve=True, comment="ok")
    world.runs("DecideApproval", decision)
    assert world.until_ended(ended).status == "failed"
    mended(world)
    answer = resume(world, ended)
    assert list(answer.reused) == ["roll", "review"]
    row = world.until_ended(answer.run.summary.run_id)
    review = json.loads(row.result)["needs"]["review"]
    assert review.pop("decided_at") is not None
    assert review == {"decision": "approved", "comment": "ok", "form": None}
    again = resume(world, ended, from_step="roll", dry_run=True)
    assert why(again)["review"] == "It needs step 'roll', which is executed."


FORM: Final = {"properties": {"note": {"type": "string"}}}


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ({"deadline_hours": 2, "on_deadline": "fail", "remind_hours": 1}, None),
        ({"approvers": {"people": ["kim"]}}, "Its definition has changed."),
        ({"form": {"properties": {"other": {"type": "string"}}}}, "Its definition has changed."),
    ],
)
def test_a_decision_is_reused_unless_other_people_or_values_are_asked_for(
    world: RuntimeWorld, ends: dict[str, Any], reason: str | None
) -> None:
    def steps(**approval: Any) -> list[dict[str, Any]]:
        return [
            {"step": "review", "approval": {"title": "Well?", "form": FORM, **approval}},
            agent_step("last", "fail", "review"),
        ]

    flow(world, "Bounded", steps=steps(deadline_hours=48))
    ended = world.started("Bounded")
    world.until_status(ended, "waiting_for_approval")
    world.decide(world.approvals(ended)["review"], approve=True, form='{"note": "x"}')
    assert world.until_ended(ended).status == "failed"
    flow(world, "Bounded", steps=steps(**ends))
    answer = resume(world, ended, dry_run=True)
    assert why(answer).get("review") == reason


def test_erasing_either_run_takes_nothing_from_the_other(world: RuntimeWorld) -> None:
    flow(world, "Apart")
    ended = failed(world, "Apart")
    run_id = resume(world, ended).run.summary.run_id
    world.until_ended(run_id)
    held = contents(world, run_id)
    assert held.keys() == {"roll/rolled.txt", "side/rolled.txt"}
    world.erase(ended)
    until(lambda: not world.dump("pending_removals"), "the removal of the objects")
    assert contents(world, run_id) == held
    assert world.get(run_id).resumed_from == ended
    third = resume(world, run_id)
    assert list(third.reused) == ["roll", "side"]
    world.until_ended(third.run.summary.run_id)
    assert world.steps(third.run.summary.run_id)["roll"].reused_from == run_id


def test_what_cannot_be_resumed_is_refused_with_the_reason(world: RuntimeWorld) -> None:
    flow(world, "Refused", last="echo")
    completed = world.started("Refused")
    world.until_ended(completed)
    flow(world, "Refused 2")
    ended = failed(world, "Refused 2")

    def refusal(run_id: str, **fields: Any) -> tuple[str, dict[str, str]]:
        with pytest.raises(RefusedError) as refused:
            resume(world, run_id, **fields)
        return refused.value.reason, dict(refused.value.problems)

    assert refusal("run_none")[0] == "run_not_found"
    problem = f"must be of a run that failed or was cancelled; {completed} completed"
    assert refusal(completed) == ("invalid_request", {"run_id": problem})
    problem = "is required, unless dry_run is true"
    assert refusal(ended, idempotency_key="") == ("invalid_request", {"idempotency_key": problem})
    assert refusal(ended, version=9)[0] == "version_not_found"
    assert refusal(ended, parameters='{"none": 1}')[0] == "invalid_parameters"
    for text in ('{"lucky": NaN}', '{"lucky": 1e400}', '{"lucky": "\\ud800"}'):
        assert refusal(ended, parameters=text, dry_run=True) == ("invalid_request", {"parameters": "must be JSON"})
    waiting = world.run("Waiting", [gate("review")])
    assert refusal(waiting)[0] == "run_not_terminal"
    world.switch(world.workflows["Refused 2"], active=False)
    assert refusal(ended)[0] == "workflow_not_active"
    world.switch(world.workflows["Refused 2"], active=True)
    world.erase(ended)
    assert refusal(ended)[0] == "already_purged"


def test_a_resume_costs_one_start_of_the_quota_and_a_slot(world: RuntimeWorld) -> None:
    flow(world, "Counted")
    world.key = world.new_key(max_concurrent_runs=1, daily_run_quota=2)
    ended = failed(world, "Counted")
    first = resume(world, ended).run.summary.run_id
    world.until_ended(first)
    with pytest.raises(RefusedError) as refused:
        resume(world, ended)
    problem = f"must be of a run that no run has taken over from, unless again is true; {first} has"
    assert refused.value.problems == {"run_id": problem}
    with pytest.raises(RefusedError) as refused:
        resume(world, ended, again=True)
    assert refused.value.reason == "quota_exceeded"


def test_a_run_of_a_revoked_or_expired_key_is_not_resumed(world: RuntimeWorld) -> None:
    flow(world, "Revoked")
    ended = failed(world, "Revoked")
    problem = f"must be of a run whose key is valid; key {world.key} is "
    world.keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=world.key))
    with pytest.raises(RefusedError) as refused:
        resume(world, ended)
    assert refused.value.problems == {"run_id": f"{problem}revoked"}
    world.key = world.new_key()
    ended = failed(world, "Revoked")
    world.clock.advance(days=400)
    with pytest.raises(RefusedError) as refused:
        resume(world, ended)
    assert refused.value.problems == {"run_id": f"must be of a run whose key is valid; key {world.key} is expired"}


def test_a_step_whose_files_are_gone_is_executed_with_those_that_need_it(world: RuntimeWorld) -> None:
    flow(world, "Gone")
    ended = failed(world, "Gone")
    (output,) = world.dump(f"outputs WHERE run_id = '{ended}' AND step = 'roll'")
    world.objects.delete(output.object_key)
    run_id = resume(world, ended).run.summary.run_id
    row = world.until_ended(run_id)
    assert "Step 'roll' is executed again: what it left in the ended run was removed." in json.loads(row.warnings)
    steps = world.steps(run_id)
    assert (steps["roll"].attempt, steps["roll"].reused_from, steps["side"].reused_from) == (1, "", ended)
    stored = f"outputs WHERE run_id = '{ended}' AND step = 'side'"
    world.services.database.write(lambda tx: erase_row(tx, world.dump(stored)[0].output_id))
    assert why(resume(world, ended, dry_run=True))["side"] == "Not all of its files are stored any more."


def erase_row(tx: Tx, output_id: str) -> None:
    tx.run(Command(delete(outputs).where(outputs.c.output_id == bindparam("of"))), of=output_id)


@pytest.mark.parametrize(
    ("stages", "reused"), [(["inputs", "steps", "outputs"], ["side"]), (["outputs"], []), (["steps"], ["side"])]
)
def test_files_that_other_steps_would_get_unswept_are_not_reused(
    world: RuntimeWorld, stages: list[str], reused: list[str]
) -> None:
    steps = [agent_step("roll", "dice"), agent_step("last", "unlucky", "roll", "side"), agent_step("side", "writer")]
    flow(world, "Swept files", steps=steps, pii_policy={"mode": "redact", "stages": stages})
    ended = failed(world, "Swept files")
    until(lambda: world.row(ended).redaction_state == "done", "the final sweep")
    until(lambda: not world.dump(f"shared_files WHERE run_id = '{ended}'"), "the removal of shared files")
    answer = resume(world, ended, dry_run=True)
    assert list(answer.reused) == reused
    assert why(answer)["roll"] == "Not all of its files are stored any more."


def test_a_policy_that_a_start_has_tightened_is_kept(world: RuntimeWorld) -> None:
    flow(world, "Tightened")
    ended = failed(world, "Tightened", pii_policy_override={"mode": "redact", "stages": ["inputs", "steps"]})
    answer = resume(world, ended)
    assert world.row(answer.run.summary.run_id).pii_policy == world.row(ended).pii_policy


def test_inputs_that_have_changed_since_have_every_step_executed(world: RuntimeWorld, bucket: Bucket) -> None:
    connector = {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "endpoint_url": bucket.url}
    world.apply(json.dumps(connector))
    assert world.workflow_calls("TestConnector", workflows_pb2.TestConnectorRequest(name="inbox")).passed
    parameters = [*LUCK, {"name": "documents", "type": "s3_prefix", "connector": "inbox", "required": True}]
    flow(world, "Inputs", parameters=parameters)
    bucket.objects = {"in/a.txt": b"A"}
    ended = failed(world, "Inputs", parameters={"documents": "s3://docs/in/"})
    same = resume(world, ended).run.summary.run_id
    world.until_ended(same)
    assert world.steps(same)["roll"].reused_from == ended
    bucket.objects = {"in/a.txt": b"B"}
    other = resume(world, ended, again=True).run.summary.run_id
    row = world.until_ended(other)
    assert not any(step.reused_from for step in world.steps(other).values())
    assert "input 'documents' is not as it was in the ended run." in row.warnings
    assert "a.txt" not in row.warnings


def test_a_resumed_run_has_uploaded_files_of_its_own(ana: Person) -> None:
    world = ana.world
    steps = [agent_step("read", "sizes"), agent_step("roll", "dice"), agent_step("last", "unlucky", "read", "roll")]
    flow(world, "Uploads", steps=steps)
    upload_id = ana.begin()
    ana.send(upload_id, 1, "table.csv", bytes(PART_BYTES + 5))
    ana.send(upload_id, 2, "more.zip", zipped({"a.txt": b"A", "deep/b.txt": b"BB"}))
    ended = ana.start("Uploads", upload_id).run.summary.run_id
    assert world.until_ended(ended).status == "failed"
    answer = world.runs("ResumeRun", runs_pb2.ResumeRunRequest(run_id=ended, idempotency_key="up"), actor=ANA)
    assert list(answer.reused) == ["read", "roll"]
    run_id = answer.run.summary.run_id
    world.until_ended(run_id)
    (read,) = world.dump(f"steps WHERE run_id = '{run_id}' AND step = 'read'")
    assert (read.status, read.reused_from) == ("completed", ended)
    assert world.get(run_id, None).started_by == ANA
    (audited,) = world.dump(f"audit_records WHERE target = '{run_id}'")
    assert (audited.actor, json.loads(audited.details)["resumed_from"]) == (ANA, ended)
    world.runs("EraseRunData", runs_pb2.EraseRunDataRequest(run_id=ended), actor=ANA)
    world.removals.round()
    again = world.runs(
        "ResumeRun",
        runs_pb2.ResumeRunRequest(run_id=run_id, from_step="read", idempotency_key="again"),
        actor=ANA,
    ).run.summary.run_id
    world.until_ended(again)
    value = world.dump(f"steps WHERE run_id = '{again}' AND step = 'read'")[0].value
    assert json.loads(value) == {"uploads/a.txt": 1, "uploads/deep/b.txt": 2, "uploads/table.csv": PART_BYTES + 5}


def test_a_person_who_resumes_a_run_that_redacts_sees_no_inputs(world: RuntimeWorld) -> None:
    flow(world, "Hidden", pii_policy={"mode": "redact"})
    ended = failed(world, "Hidden", input_text="Ana Smith")
    metadata = [(ACTOR, ANA), (PERSON, "ana")]
    for key in ("hidden", "hidden"):
        request = runs_pb2.ResumeRunRequest(run_id=ended, idempotency_key=key)
        run = world.runs.with_metadata("ResumeRun", request, metadata).run
        assert run.summary.run_id
        assert not {"parameters", "input_text"} & {field.name for field, _ in run.ListFields()}
    assert world.row(run.summary.run_id).input_text == "Ana Smith"


def test_a_decision_that_the_ended_run_has_not_swept_is_swept_before_it_is_reused(world: RuntimeWorld) -> None:
    steps = [gate("review"), agent_step("last", "unlucky", "review")]
    flow(world, "Commented", steps=steps, pii_policy={"mode": "redact", "stages": ["steps"]})
    ended = world.started("Commented")
    world.until_status(ended, "waiting_for_approval")
    world.decide(world.approvals(ended)["review"], True)
    world.until_ended(ended)
    at = "2026-09-24T10:15:30.123+00:00"
    said = {"comment": "ask ana@example.com", "form": {"to": "ana@example.com"}}
    raw = json.dumps({"decision": "approved", **said, "decided_at": at})
    world.services.database.write(lambda tx: set_value(tx, ended, "review", raw))
    mended(world)
    answer = resume(world, ended)
    assert list(answer.reused) == ["review"]
    row = world.until_ended(answer.run.summary.run_id)
    (review,) = world.dump(f"steps WHERE run_id = '{row.run_id}' AND step = 'review'")
    swept = {"comment": "ask [EMAIL_ADDRESS]", "form": {"to": "[EMAIL_ADDRESS]"}}
    assert json.loads(review.value) == {"decision": "approved", **swept, "decided_at": at}


def set_value(tx: Tx, run_id: str, step: str, value: str) -> None:
    tx.run(
        Command(
            update(steps_table)
            .where(steps_table.c.run_id == bindparam("of"), steps_table.c.step == bindparam("named"))
            .values(value=bindparam("new"))
        ),
        of=run_id,
        named=step,
        new=value,
    )


def test_a_step_that_another_one_needs_only_now_is_executed_for_its_shared_files(world: RuntimeWorld) -> None:
    flow(world, "Needed")
    world.workflows |= world.apply(
        manifest(
            "Needed",
            [agent_step("roll", "dice"), agent_step("last", "unlucky")],
            parameters=LUCK,
            settings={"parallel_steps": 1},
        )
    )
    ended = world.started("Needed", version=2)
    world.until_ended(ended)
    assert world.board(ended) == {"roll": "completed", "last": "failed"}
    flow(world, "Needed", steps=[agent_step("roll", "dice"), agent_step("last", "unlucky", "roll")])
    answer = resume(world, ended, dry_run=True)
    assert why(answer)["roll"] == "Other steps need its files, and none did before."


def test_a_policy_that_a_new_version_has_tightened_more_is_the_new_versions(world: RuntimeWorld) -> None:
    flow(world, "Stricter", pii_policy={"mode": "detect"})
    ended = failed(world, "Stricter", pii_policy_override={"min_confidence": 0.6})
    flow(world, "Stricter", pii_policy={"mode": "redact", "min_confidence": 0.5})
    answer = resume(world, ended)
    policy = json.loads(world.row(answer.run.summary.run_id).pii_policy)
    assert (policy["mode"], policy["min_confidence"]) == ("redact", 0.5)
    assert why(answer)["side"] == "The PII policy has changed."
