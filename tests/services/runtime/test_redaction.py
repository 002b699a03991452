"""The sweeps of a run: no value is handed on, published or shown before it was swept. (contract 21.9, 21.11)"""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.runtime.final_sweep.scheduler import FinalSweeps
from backend.storage.object_keys import run_prefix
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.poll import until
from workflow_api.v1 import outputs_pb2

MAIL = "jane.roe@example.com"
REDACT = {"pii_policy": {"mode": "redact"}, "result": {"step": "main"}}
AGENTS = {
    "teller": f"""
        def run(context):
            context.progress("seen", text=context.input_text, who="{MAIL}")
            (context.outputs / "{MAIL}.txt").write_text("write to {MAIL} today")
            (context.outputs / "chart.bin").write_bytes(bytes(range(256)))
            return {{"seen": context.input_text, "who": "{MAIL}", "summary_markdown": "# {MAIL}"}}
    """,
    "odd": f"""
        def run(context):
            raise type("{MAIL}", (Exception,), {{}})("odd")
    """,
    "failing": f"""
        def run(context):
            raise ValueError("{MAIL} is unknown")
    """,
    "reader": """
        def run(context):
            found = {path.name: path.read_text() for path in (context.files / "main").iterdir()}
            return {"needs": context.needs, "found": found}
    """,
}


@pytest.fixture(autouse=True)
def _agents(idle_world: RuntimeWorld) -> None:
    documents = [
        json.dumps({"kind": "Agent", "name": name, "type": "python", "code": textwrap.dedent(code)})
        for name, code in AGENTS.items()
    ]
    idle_world.apply("\n---\n".join(documents))


def until_opened(world: RuntimeWorld, run_id: str) -> Any:
    world.until_ended(run_id)
    until(lambda: world.row(run_id).redaction_state == "done", "the final sweep")
    return world.row(run_id)


def listed(world: RuntimeWorld, run_id: str) -> dict[str, outputs_pb2.Output]:
    answer = world.outputs("ListOutputs", outputs_pb2.ListOutputsRequest(run_id=run_id), world.key)
    return {output.path: output for output in answer.items}


def content(world: RuntimeWorld, run_id: str, output: outputs_pb2.Output) -> bytes:
    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output.output_id)
    return b"".join(part.data for part in world.outputs.stream("GetOutputContent", request, world.key).rest())


def stored(world: RuntimeWorld, run_id: str) -> bytes:
    folder = world.stored_below(run_prefix(run_id))
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def manifest(world: RuntimeWorld, run_id: str) -> Any:
    return json.loads(world.row(run_id).pii_redaction or "{}")


def test_the_local_model_hides_names_in_what_a_run_reads_and_leaves(world: RuntimeWorld) -> None:
    told = "Yesterday Maria Gonzalez wrote from Baker Street."
    policy = {"mode": "redact", "model": "local"}
    run_id = world.run("Letters", [agent_step("main", "teller")], workflow={"pii_policy": policy}, input_text=told)
    row = until_opened(world, run_id)
    assert row.status == "completed"
    assert b"Gonzalez" not in stored(world, run_id)
    found = manifest(world, run_id)
    assert found["model"] == "local"
    assert found["categories"]["PERSON"] >= 1
    assert found["counts"]["model_calls"] >= 1


def test_everything_that_a_run_shows_is_swept(world: RuntimeWorld) -> None:
    run_id = world.run("Redacts", [agent_step("main", "teller")], workflow=REDACT, input_text=f"from {MAIL}")
    row = until_opened(world, run_id)
    assert row.status == "completed"
    assert json.loads(row.result) == {
        "seen": "from [EMAIL_ADDRESS]",
        "who": "[EMAIL_ADDRESS]",
        "summary_markdown": "# [EMAIL_ADDRESS]",
    }
    assert row.summary_markdown == "# [EMAIL_ADDRESS]"
    outputs = listed(world, run_id)
    assert set(outputs) == {"main/[EMAIL_ADDRESS].txt", "result.json"}
    assert content(world, run_id, outputs["main/[EMAIL_ADDRESS].txt"]) == b"write to [EMAIL_ADDRESS] today"
    assert json.loads(content(world, run_id, outputs["result.json"])) == json.loads(row.result)
    assert outputs["result.json"].sha256 == row.result_sha256
    assert MAIL not in str(world.all_events(run_id))
    assert row.outputs_count == 2


def test_the_originals_are_removed_once_the_swept_ones_are_stored(world: RuntimeWorld) -> None:
    run_id = world.run("Originals", [agent_step("main", "teller")], workflow=REDACT)
    until_opened(world, run_id)
    until(lambda: MAIL.encode() not in stored(world, run_id), "the removal of the originals")


@pytest.mark.parametrize("waits", [False, True], ids=["on this worker's disk", "restored"])
def test_shared_files_are_swept_before_later_steps_see_them(world: RuntimeWorld, waits: bool) -> None:
    code = f"""
def run(context):
    (context.shared / "{MAIL}.txt").write_text("write to {MAIL} today")
"""
    world.apply(json.dumps({"kind": "Agent", "name": "sharer", "type": "python", "code": code}))
    steps = [agent_step("main", "sharer"), agent_step("read", "reader", "main", *(["review"] if waits else []))]
    if waits:
        steps.insert(1, gate("review", "main"))
    workflow = REDACT | {"result": {"step": "read"}}
    run_id = world.run("Shares", steps, workflow=workflow)
    if waits:
        world.until_status(run_id, "waiting_for_approval")
        world.decide(world.approvals(run_id)["review"], True)
    row = until_opened(world, run_id)
    assert json.loads(row.result)["found"] == {"[EMAIL_ADDRESS].txt": "write to [EMAIL_ADDRESS] today"}
    assert set(listed(world, run_id)) == {"result.json"}
    until(lambda: world.count("shared_files") == 0, "the removal of shared files")
    assert MAIL.encode() not in stored(world, run_id)


def test_the_manifest_counts_and_names_no_value(world: RuntimeWorld) -> None:
    run_id = world.run("Counts", [agent_step("main", "teller")], workflow=REDACT, input_text=f"from {MAIL}")
    until_opened(world, run_id)
    found = manifest(world, run_id)
    stages = {stage["stage"]: stage for stage in found["stages"]}
    assert {stage["status"] for stage in stages.values()} == {"completed"}
    assert stages["inputs"]["values"] == 1
    assert stages["outputs"]["files"] == 2
    assert found["counts"]["withheld_files"] == 1
    assert found["categories"] == {"EMAIL_ADDRESS": found["counts"]["values"]}
    assert MAIL not in json.dumps(found)


def test_a_detecting_policy_counts_and_changes_nothing(world: RuntimeWorld) -> None:
    workflow = {"pii_policy": {"mode": "detect"}, "result": {"step": "main"}}
    run_id = world.run("Detects", [agent_step("main", "teller")], workflow=workflow, input_text=f"from {MAIL}")
    row = until_opened(world, run_id)
    assert json.loads(row.result)["seen"] == f"from {MAIL}"
    outputs = listed(world, run_id)
    assert set(outputs) == {f"main/{MAIL}.txt", "main/chart.bin", "result.json"}
    assert content(world, run_id, outputs[f"main/{MAIL}.txt"]) == f"write to {MAIL} today".encode()
    assert manifest(world, run_id)["categories"]["EMAIL_ADDRESS"] > 0


def test_the_message_of_a_failed_step_is_swept(world: RuntimeWorld) -> None:
    run_id = world.run("Fails", [agent_step("main", "failing")], workflow={"pii_policy": {"mode": "redact"}})
    row = until_opened(world, run_id)
    assert row.error_message == "Step 'main' failed: ValueError: [EMAIL_ADDRESS] is unknown"
    assert world.steps(run_id)["main"].error.message == "ValueError: [EMAIL_ADDRESS] is unknown"
    assert MAIL not in str(world.all_events(run_id))


def test_the_name_of_a_steps_failure_is_swept(world: RuntimeWorld) -> None:
    run_id = world.run("Names", [agent_step("main", "odd")], workflow={"pii_policy": {"mode": "redact"}})
    until_opened(world, run_id)
    assert world.steps(run_id)["main"].error.message == "[EMAIL_ADDRESS]: odd"
    assert MAIL not in str(world.all_events(run_id))


def test_the_counts_of_a_run_are_the_sums_over_its_stages(world: RuntimeWorld) -> None:
    workflow = {"pii_policy": {"mode": "detect"}, "result": {"step": "main"}}
    steps = [agent_step("main", "teller"), agent_step("after", "name", "main")]
    run_id = world.run("Once", steps, workflow=workflow, input_text=f"from {MAIL}")
    until_opened(world, run_id)
    found = manifest(world, run_id)
    stages = {stage["stage"]: stage for stage in found["stages"]}
    # The input; two of progress, three of the value, and a file's name and content.
    assert (stages["inputs"]["values"], stages["steps"]["values"], stages["steps"]["files"]) == (1, 7, 2)
    # The file and its name, and the result again.
    assert (stages["outputs"]["values"], stages["outputs"]["files"]) == (5, 2)
    assert (found["counts"]["values"], found["counts"]["files"]) == (13, 4)
    assert found["categories"] == {"EMAIL_ADDRESS": 13}


def test_a_run_whose_inputs_cannot_be_swept_says_why_and_never_begins(world: RuntimeWorld) -> None:
    unusable = {"mode": "redact", "model": "openai:gpt-5"}
    run_id = world.run("Unswept", [agent_step("main")], workflow={"pii_policy": unusable}, input_text="Ask Ada")
    row = world.until_ended(run_id)
    assert row.error_code == "invariant_blocked"
    assert row.error_message.startswith("The inputs could not be swept for personal data: neither the agent nor")
    statuses = {stage["stage"]: stage["status"] for stage in manifest(world, run_id)["stages"]}
    assert (statuses["inputs"], statuses["steps"]) == ("failed", "pending")
    world.erase(run_id)
    statuses = {stage["stage"]: stage["status"] for stage in manifest(world, run_id)["stages"]}
    assert statuses == {"inputs": "failed", "steps": "completed", "outputs": "skipped"}


def test_a_run_that_is_cancelled_before_it_begins_skips_its_stages(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    world, redactor = idle_world, _Broken(tmp_path)
    redactor.works = True
    run_id = world.run("Queued", [agent_step("main")], workflow={"pii_policy": {"mode": "redact"}})
    world.cancel(run_id)
    sweep(FinalSweeps(world.services.database, world.services.clock, world.objects, redactor, tmp_path / "sweeps"))
    redactor.close()
    statuses = {stage["stage"]: stage["status"] for stage in manifest(world, run_id)["stages"]}
    assert statuses == {"inputs": "skipped", "steps": "skipped", "outputs": "completed"}


@pytest.mark.parametrize("parked", [False, True])
def test_later_steps_get_swept_values_and_files(world: RuntimeWorld, parked: bool) -> None:
    steps = [agent_step("main", "teller"), agent_step("after", "reader", "main", *(["look"] if parked else []))]
    if parked:
        steps.append(gate("look", "main"))
    workflow = {"pii_policy": {"mode": "redact", "stages": ["steps"]}, "result": {"step": "after"}}
    run_id = world.run(f"Hands on {parked}", steps, workflow=workflow)
    if parked:
        world.until_status(run_id, "waiting_for_approval")
        world.decide(world.approvals(run_id)["look"], approve=True)
    result = json.loads(until_opened(world, run_id).result)
    assert result["needs"]["main"]["who"] == "[EMAIL_ADDRESS]"
    assert result["found"] == {"[EMAIL_ADDRESS].txt": "write to [EMAIL_ADDRESS] today"}


def sweep(sweeps: FinalSweeps) -> None:
    """Lets the sweeps that are due come to their end, and their originals be removed."""
    for one in sweeps.round():
        one.result()
    for one in sweeps.round():
        one.result()


def decided(world: RuntimeWorld, run_id: str) -> Any:
    [event] = [event for events in world.all_events(run_id) for event in events if event.type == "approval.decided"]
    return json.loads(event.data)


def parked(world: RuntimeWorld, name: str, **policy: Any) -> str:
    workflow = {"pii_policy": {"mode": "redact", **policy}, "result": {"step": "after"}}
    run_id = world.run(name, [gate("look"), agent_step("after", "echo", "look")], workflow=workflow)
    world.until_status(run_id, "waiting_for_approval")
    return run_id


@pytest.mark.parametrize(
    ("policy", "shown", "handed_on", "stage"),
    [
        ({}, "ask [EMAIL_ADDRESS]", "ask [EMAIL_ADDRESS]", "steps"),
        ({"stages": ["outputs"]}, "ask [EMAIL_ADDRESS]", "ask [EMAIL_ADDRESS]", "outputs"),
        ({"stages": ["inputs"]}, f"ask {MAIL}", f"ask {MAIL}", None),
        ({"mode": "detect"}, f"ask {MAIL}", f"ask {MAIL}", "steps"),
    ],
)
def test_the_comment_of_an_approval_is_swept(
    world: RuntimeWorld, policy: dict[str, Any], shown: str, handed_on: str, stage: str | None
) -> None:
    run_id = parked(world, f"Said {policy}", **policy)
    world.decide(world.approvals(run_id)["look"], approve=True, comment=f"ask {MAIL}")
    row = until_opened(world, run_id)
    assert decided(world, run_id)["comment"] == shown
    look = json.loads(row.result)["needs"]["look"]
    assert {name: look[name] for name in ("decision", "comment")} == {"decision": "approved", "comment": handed_on}
    assert [event.type for event in world.all_events(run_id)[1]][:3] == [
        "segment.started",
        "approval.decided",
        "step.started",
    ]
    counted = {entry["stage"]: entry["values"] for entry in manifest(world, run_id)["stages"]}
    assert stage is None or counted[stage] > 0


def test_later_steps_get_the_swept_comment(world: RuntimeWorld) -> None:
    run_id = parked(world, "Said to steps", stages=["steps"])
    world.decide(world.approvals(run_id)["look"], approve=True, comment=f"ask {MAIL}")
    row = world.until_ended(run_id)
    assert MAIL not in row.result


def test_a_comment_that_cannot_be_swept_fails_the_run_and_is_not_shown(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_id = parked(world, "Unsaid", stages=["steps"])
    broken = _Broken(tmp_path)
    monkeypatch.setattr(ConfinedRedactor, "values", lambda _, *values, **options: broken.values(*values, **options))
    world.decide(world.approvals(run_id)["look"], approve=True, comment=f"ask {MAIL}")
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "invariant_blocked")
    assert set(decided(world, run_id)) == {"approval_id", "decision"}


def test_the_decision_event_of_a_run_that_ends_before_it_continues_has_no_comment(idle_world: RuntimeWorld) -> None:
    idle_world.local_runtime.start()
    try:
        run_id = parked(idle_world, "Cancelled")
    finally:
        idle_world.local_runtime.stop()
    idle_world.decide(idle_world.approvals(run_id)["look"], approve=True, comment=f"ask {MAIL}")
    idle_world.cancel(run_id)
    assert idle_world.status(run_id) == "cancelled"
    assert set(decided(idle_world, run_id)) == {"approval_id", "decision"}


def test_a_stage_that_is_not_named_is_not_swept(world: RuntimeWorld) -> None:
    workflow = {"pii_policy": {"mode": "redact", "stages": ["outputs"]}, "result": {"step": "main"}}
    run_id = world.run("Outputs only", [agent_step("main", "echo")], workflow=workflow, input_text=MAIL)
    row = until_opened(world, run_id)
    assert row.input_text == MAIL
    assert [stage["stage"] for stage in manifest(world, run_id)["stages"]] == ["outputs"]


def test_no_output_is_served_before_it_was_swept(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    world = idle_world
    sweeps = FinalSweeps(
        world.services.database, world.services.clock, world.objects, _Broken(tmp_path), tmp_path / "sweeps"
    )
    run_id = _left_swept(world)
    sweep(sweeps)
    with pytest.raises(RefusedError) as refused:
        listed(world, run_id)
    assert refused.value.reason == "redaction_pending"
    assert not list((tmp_path).glob("sweeps/*"))


def test_a_sweep_that_failed_is_tried_again_after_a_pause(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    world, broken = idle_world, _Broken(tmp_path)
    sweeps = FinalSweeps(world.services.database, world.services.clock, world.objects, broken, tmp_path / "sweeps")
    run_id = _left_swept(world)
    for _ in range(3):
        sweep(sweeps)
    assert broken.asked == 1
    broken.works = True
    world.clock.now += 1_000
    sweep(sweeps)
    broken.close()
    assert world.row(run_id).redaction_state == "done"


def test_an_erasure_ends_the_sweep(idle_world: RuntimeWorld, tmp_path: Path) -> None:
    world = idle_world
    run_id = _left_swept(world, json.dumps({"mode": "redact"}))

    class Erasing(ConfinedRedactor):
        def file(self, *args: Any, **options: Any) -> Any:
            swept = super().file(*args, **options)
            world.erase(run_id)
            world.objects.delete_prefix(run_prefix(run_id))
            return swept

    erasing = Erasing(Models(Secrets(), {}), scratch=tmp_path / "scratch")
    sweep(FinalSweeps(world.services.database, world.services.clock, world.objects, erasing, tmp_path / "sweeps"))
    erasing.close()
    world.local_runtime.dispatcher.removals.round()
    assert world.row(run_id).data_purged_at is not None
    assert stored(world, run_id) == b""


def _left_swept(world: RuntimeWorld, override: str | None = None) -> str:
    run_id = world.started("Swept", pii_policy_override=override)
    world.begin(run_id)
    world.output(run_id, "first/a.txt", MAIL.encode())
    assert world.close(run_id)
    return run_id


class _Broken(ConfinedRedactor):
    """Sweeps only once it works."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Models(Secrets(), {}), scratch=folder / "scratch")
        self.works = False
        self.asked = 0

    def values(self, *args: Any, **options: Any) -> Any:
        self.asked += 1
        if not self.works:
            raise RedactionError("broken")
        return super().values(*args, **options)


def test_the_sweeps_of_inputs_and_of_each_step_have_events_and_the_final_sweep_has_none(world: RuntimeWorld) -> None:
    run_id = world.run("Silent", [agent_step("main", "teller")], workflow=REDACT, input_text=f"from {MAIL}")
    until_opened(world, run_id)
    stages = {stage["stage"]: stage["status"] for stage in manifest(world, run_id)["stages"]}
    assert stages["outputs"] == "completed"
    [events] = world.all_events(run_id)
    sweeps = [(event.type, event.step, json.loads(event.data)) for event in events if "redaction." in event.type]
    assert [(kind, step, data["stage"]) for kind, step, data in sweeps] == [
        ("redaction.started", "", "inputs"),
        ("redaction.completed", "", "inputs"),
        ("redaction.started", "main", "steps"),
        ("redaction.completed", "main", "steps"),
    ]
    # The stage counts what the step reported, too.
    counted = {stage["stage"]: stage["values"] for stage in manifest(world, run_id)["stages"]}
    assert 0 < sweeps[-1][2]["values"] < counted["steps"]
    assert events[-1].type == "segment.ended"
