"""The auditor finds inconsistencies: a consistent journal and state, with one change in either."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.faults import answers, machine_rules, rules
from tests.faults.auditor import report
from tests.faults.cluster import STORED_INPUTS
from tests.faults.console_rules import NO_KEY
from tests.faults.flow_histories import WRONG_FLOWS, Change, add_flows
from tests.faults.journal import FaultWindow, Journal, Record, read
from tests.faults.releases import ENVIRONMENT, PARTS
from tests.faults.schedule_histories import WRONG_SCHEDULES, add_schedules
from tests.faults.state import BuildFolder, Decision, OutputRow, RunRow, SegmentRow, State, StoredObject

KEY, RUN, ERASED, SEGMENT, OUTPUT, APPROVAL = "ak_1", "run_1", "run_2", "seg_1", "out_1", "apr_1"
PURGED_AT = 1_790_244_930_123
PURGED = "2026-09-24T10:15:30.123+00:00"
PARKED_TOLD, END_TOLD = ("msg_1", RUN, "run.waiting_for_approval"), ("msg_2", RUN, "run.ended")
ERASED_END_TOLD, ERASURE_TOLD = ("msg_3", ERASED, "run.ended"), ("msg_4", ERASED, "run.erased")
EVENTS = [[1, "segment.started", "a"], [2, "run.started", "b"]]

REDACTED, PUBLISHED, READ, IMPORTED, ATTACHED, ASKED = "run_3", "run_4", "run_5", "run_6", "run_7", "run_8"
WORKFLOWS = {"wf_1": "Redacts", "wf_2": "Publishes", "wf_3": "Reads", "wf_4": "Imports", "wf_5": "AskedReads"}
CONTENT_RUNS = (REDACTED, PUBLISHED, READ, IMPORTED, ASKED)
REVIEW, UPLOAD, LOCK = "apr_2", "upl_1", "5" * 64
BUILT = {"state": "ENVIRONMENT_BUILD_STATE_BUILT", "message": "", "locked": ["alpha==1.7"], "digest": LOCK}
IMPORTS = {"release": "1.7", "parts": ["1.7"] * PARTS}
NO_FOLDER = {"code": "node_failed", "message": "Step 'read' failed: FileNotFoundError: documents."}
UNAVAILABLE = {"code": "node_failed", "message": "Step 'import' failed: PackagesUnavailable: no wheel."}
IN_CONSOLE = Decision("rejected", "user:bo", 1)
MANIFEST = {"stages": [{"stage": "outputs", "status": "completed"}], "counts": {"values": 2}}
PENDING = {**MANIFEST, "stages": [{"stage": "outputs", "status": "pending"}]}
PLANTED = StoredObject(3, "abc", planted=True)
DIGESTS = [hashlib.sha256(data).hexdigest() for _, data in sorted(STORED_INPUTS.items())]

# Seconds of the journal's clock; the time-out for launches is 60 s.
DIED, BACK = 1000.0, 1100.0
CONTENTION_WAS = 100.0


def at(seconds: float) -> int:
    """A time of the database by the journal's clock, as the state has them."""
    return round(seconds * 1000)


def noted(journal: Journal, calls: dict[str, dict[str, Any]]) -> None:
    for call in calls.values():
        number = journal.call(call["kind"], edge=0, **call["about"])
        journal.answer(number, call["status"], call.get("code"), call.get("said", {}))


def start(name: str, run: str, status: int = 201) -> dict[str, Any]:
    return {
        "kind": "start",
        "about": {"key": KEY, "idempotency_key": name, "body": name},
        "status": status,
        "said": {"run": run, "replayed": status == 200, "key": KEY, "reference": name},
    }


def of_run(kind: str, run: str = RUN, status: int = 200, code: str | None = None, **said: Any) -> dict[str, Any]:
    return {"kind": kind, "about": {"key": KEY, "run": run}, "status": status, "code": code, "said": said}


def right() -> tuple[dict[str, dict[str, Any]], State]:
    """Calls by a name, and a state that is as they were answered."""
    end = {"status": "completed", "finished_at": "then", "error": None, "outputs": 1}
    calls = {
        "start": start("first", RUN),
        "replay": start("first", RUN, 200),
        "other start": start("second", ERASED),
        "read": of_run("read_run") | {"said": end},
        "read again": of_run("read_run") | {"said": dict(end)},
        "events": of_run("read_events", segment=SEGMENT, events=EVENTS, next=2, segments=[]),
        "waited": of_run("wait_for_run") | {"said": dict(end)},
        "followed": of_run("follow_events", events=[[SEGMENT, *event] for event in EVENTS], end="completed"),
        "decide": {
            "kind": "decide",
            "about": {"key": KEY, "run": RUN, "approval": APPROVAL, "approve": True},
            "status": 200,
        },
        "cancel": of_run("cancel", RUN, 409, "already_terminal"),
        "outputs": of_run("list_outputs", outputs=[[OUTPUT, "one/1.txt", "abc", 3]]),
        "content": of_run("read_content", sha256="abc", size=3),
        "zip": of_run("read_zip", files={"one/1.txt": "abc"}),
        "list": {"kind": "list_runs", "about": {"key": KEY}, "status": 200, "said": {"runs": [RUN, ERASED]}},
        "erase": of_run("erase", ERASED, 202, purged_at=PURGED),
        "erase again": of_run("erase", ERASED, 409, "already_purged", data_purged_at=PURGED),
        "revoke": {"kind": "revoke_key", "about": {"key": "ak_2"}, "status": 200},
        "reviewed": {
            "kind": "decide_in_console",
            "about": {"person": "bo", "run": RUN, "approval": REVIEW, "approve": False},
            "status": 200,
        },
        "seen": {"kind": "see_run", "about": {"run": RUN}, "status": 200, "said": {"shows": True}},
        "seen erased": {"kind": "see_run", "about": {"run": ERASED}, "status": 200, "said": {"shows": False}},
        "attached": {
            "kind": "start_in_console",
            "about": {"reference": "console-1", "sha256": "abc"},
            "status": 200,
            "said": {"run": ATTACHED},
        },
        "attached again": {
            "kind": "start_in_console",
            "about": {"reference": "console-1", "sha256": "abc"},
            "status": 409,
            "code": "started_before",
        },
        "changed": {
            "kind": "change_environment",
            "about": {"environment": ENVIRONMENT, "requirement": "alpha==1.7"},
            "status": 200,
        },
        "not ready": {
            "kind": "start",
            "about": {"key": KEY, "idempotency_key": "fourth", "body": "fourth"},
            "status": 409,
            "code": "workflow_not_ready",
            "said": {"reasons": [f"Environment '{ENVIRONMENT}' is being built."]},
        },
        "refused": {"kind": "read_key", "about": {"key": "ak_2"}, "status": 401, "code": "unauthorized"},
    }
    for number, run_id in enumerate(CONTENT_RUNS):
        calls = {f"start {number}": start(f"content {number}", run_id), **calls}
        calls["list"]["said"]["runs"].append(run_id)
    calls["waited"]["about"] |= {"wait": 3}
    calls["followed"]["about"] |= {"last": None}
    calls["events"]["about"] |= {"segment": None, "after": 0}
    calls["content"]["about"] |= {"output": OUTPUT, "sha256": "abc"}
    state = State(
        runs={
            RUN: RunRow(KEY, "first", "completed", None, 3, 9, 0, 0, 1),
            ERASED: RunRow(KEY, "second", "cancelled", PURGED_AT, 0, 0, 0, 0, 0),
        },
        records={(KEY, "first"): RUN, (KEY, "second"): ERASED},
        segments={SEGMENT: SegmentRow(RUN, 2, 2, 1, 2)},
        approvals={APPROVAL: Decision("approved", "internal", 1), REVIEW: IN_CONSOLE},
        uploads={UPLOAD: ATTACHED},
        results_for_people={ATTACHED: {"digests": ["abc"]}},
        environment=dict(BUILT),
        builds={LOCK: BuildFolder(whole=True, beside=())},
        outputs={OUTPUT: OutputRow(RUN, "one/1.txt", "abc", 3, f"runs/{RUN}/{OUTPUT}")},
        quota={KEY: 2},
        revoked={"ak_2"},
        objects={f"runs/{RUN}/{OUTPUT}": StoredObject(3, "abc")},
        shown_runs={
            RUN: {"run_id": RUN, "status": "completed", "finished_at": "then"},
            ERASED: {"run_id": ERASED, "status": "cancelled", "finished_at": "then"},
        },
        told_listed={KEY: [ERASED, RUN]},
        shown_keys={KEY: {"active_runs": 0}},
        shown_events={SEGMENT: EVENTS},
        statuses_of_erased={ERASED: [404, 404, 404]},
        workflows=WORKFLOWS,
        redactions={REDACTED: MANIFEST},
        graphs={f"urn:run/{PUBLISHED}": 3},
        publications={(PUBLISHED, "kg_1"): "kept"},
        hooked={KEY},
        accepted=[PARKED_TOLD, END_TOLD, ERASED_END_TOLD, ERASURE_TOLD, END_TOLD],
    )
    for number, (run_id, workflow_id) in enumerate(zip(CONTENT_RUNS, WORKFLOWS, strict=True)):
        state.runs[run_id] = RunRow(KEY, f"content {number}", "completed", None, 3, 9, 0, 0, 0)
        state.records[KEY, f"content {number}"] = run_id
        state.quota[KEY] += 1
        state.told_listed[KEY].append(run_id)
        state.accepted.append((f"msg_1{number}", run_id, "run.ended"))
        shown = {"run_id": run_id, "status": "completed", "finished_at": "then", "workflow_id": workflow_id}
        result = IMPORTS if run_id == IMPORTED else {"digests": DIGESTS}
        state.shown_runs[run_id] = {**shown, "warnings": [], "result": result}
    state.runs[ATTACHED] = RunRow(NO_KEY, "console-1", "completed", None, 3, 9, 0, 0, 0)
    state.objects[f"uploads/{UPLOAD}/1/0-3"] = StoredObject(3, "abc")
    add_flows(calls, state)
    add_schedules(calls, state)
    return calls, state


def journal_of(folder: Path, calls: dict[str, dict[str, Any]]) -> Record:
    journal = Journal(folder / "journal.jsonl")
    # Long before the calls, as far as they could tell.
    journal.fault(1, "postgresql table lock", begins=True)
    journal.fault(1, "postgresql table lock", begins=False)
    noted(journal, calls)
    journal.close()
    record = read(journal.path)
    record.fault_windows[0].began -= CONTENTION_WAS
    record.fault_windows[0].ended -= CONTENTION_WAS
    record.serving["worker 0"] = [(0.0, DIED), (BACK, float("inf"))]
    return record


def test_a_consistent_history_has_no_violation(tmp_path: Path) -> None:
    calls, state = right()
    text, violations = report(journal_of(tmp_path, calls), state)
    assert violations == 0, text
    assert all(held for held, _ in rules.found(journal_of(tmp_path, calls), state).values()), text


def set_run(run_id: str = RUN, **changes: Any) -> Change:
    return lambda _, state: state.runs.update({run_id: state.runs[run_id]._replace(**changes)})


def set_call(name: str, **changes: Any) -> Change:
    return lambda calls, _: calls[name].update(changes)


def say(name: str, **changes: Any) -> Change:
    return lambda calls, _: calls[name]["said"].update(changes)


def decide(approval_id: str, **changes: Any) -> Change:
    return lambda _, state: state.approvals.update({approval_id: state.approvals[approval_id]._replace(**changes)})


def set_environment(**changes: Any) -> Change:
    return lambda _, state: state.environment.update(changes)


def launch_failed(seconds: float) -> Change:
    return set_run(status="failed", error_code="launch_failed", finished_at=at(seconds))


def import_as(**shown: Any) -> Change:
    return lambda _, state: state.shown_runs[IMPORTED].update(shown)


def set_build(**changes: Any) -> Change:
    return lambda _, state: state.builds.update({LOCK: state.builds[LOCK]._replace(**changes)})


WRONG: list[tuple[str, Change]] = [
    ("every answer is one", set_call("read again", status=500, code="internal")),
    ("every answer is one", set_call("read again", status=404, code="run_not_found")),
    ("every answer is one", set_call("read again", status=401, code="unauthorized")),
    ("every answer is one", set_call("read again", status=503, code="deployment_updating", said={"reason": "x"})),
    ("every answer is one", set_call("events", status=404, code="not_found")),
    ("every answer is one", set_call("start", status=422, code="version_not_found")),
    ("no answer fails without", set_call("read again", status=502, code="runtime_unreachable")),
    ("no answer fails without", set_call("read again", status=0, code="ConnectionResetError")),
    ("no start conflicts", set_call("replay", status=409, code="idempotency_conflict")),
    ("every acknowledged start", lambda _, state: state.shown_runs.update({RUN: {"error": {}}})),
    ("every acknowledged start", set_run(client_reference="third")),
    ("every acknowledged start", say("replay", run="run_9")),
    ("no idempotency key", say("replay", run="run_9")),
    ("no idempotency key", set_call("replay", status=201)),
    ("no idempotency key", lambda _, state: state.records.update({(KEY, "first"): None})),
    ("no idempotency key", set_run(ERASED, client_reference="first")),
    ("no event that was seen", lambda _, state: state.shown_events.update({SEGMENT: [EVENTS[0], [2, "x", "c"]]})),
    ("no event that was seen", lambda _, state: state.shown_events.update({SEGMENT: EVENTS[:1]})),
    ("no event that was seen", say("events", events=[EVENTS[0], [3, "x", "c"]])),
    ("no event sequence", lambda _, state: state.segments.update({SEGMENT: SegmentRow(RUN, 3, 2, 1, 3)})),
    ("no event sequence", lambda _, state: state.shown_events.update({SEGMENT: [EVENTS[1]]})),
    ("every run came to its end", set_run(status="running")),
    ("every run came to its end", set_run(open_segments=1)),
    ("every run came to its end", set_run(pending_approvals=1)),
    ("no run that ended", say("read again", status="running")),
    ("no run that ended", say("read again", finished_at="later")),
    ("no run that ended", set_run(status="failed")),
    ("no run that ended", set_call("cancel", status=202, code=None, said={"status": "cancelled"})),
    ("every decision holds", decide(APPROVAL, state="rejected")),
    ("every decision holds", decide(REVIEW, state="approved")),
    ("every decision holds", lambda _, state: state.approvals.clear()),
    ("every decision is one", decide(REVIEW, person="user:ana")),
    ("every decision is one", decide(REVIEW, audited=2)),
    ("every decision is one", decide(APPROVAL, audited=0)),
    ("every form", set_run(ATTACHED, client_reference="console-2")),
    ("every form", lambda _, state: state.runs.update({"run_9": state.runs[ATTACHED]})),
    ("every form", say("attached", run="run_9")),
    ("no run completes without", lambda _, state: state.results_for_people.update({ATTACHED: {"digests": []}})),
    ("no page shows", say("seen erased", shows=True)),
    ("no page shows", lambda _, state: state.showing_erased.append(ERASED)),
    ("every answer is one", set_call("seen", status=500, code="page")),
    ("every answer is one", set_call("seen", status=401, code="signed_out")),
    ("every answer is one", say("not ready", reasons=["Workflow 'x' is not ready."])),
    ("every environment", set_environment(state="ENVIRONMENT_BUILD_STATE_BUILDING")),
    ("every environment", set_environment(state="ENVIRONMENT_BUILD_STATE_FAILED")),
    ("every environment", set_environment(locked=["alpha==1.6"])),
    ("no step finds", import_as(result={**IMPORTS, "parts": ["1.7", "1.6"] * (PARTS // 2)})),
    ("no step finds", import_as(result={**IMPORTS, "parts": ["1.7"]})),
    ("no step finds", import_as(result={"release": "1.8", "parts": ["1.8"] * PARTS})),
    ("no step finds", import_as(status="failed", error={**UNAVAILABLE, "message": "ModuleNotFoundError: alpha"})),
    ("nothing is left of a build", lambda _, state: state.builds.clear()),
    ("nothing is left of a build", set_build(whole=False)),
    ("nothing is left of a build", set_build(beside=("building",))),
    ("nothing is left of an erased", lambda _, state: state.uploads.clear()),
    ("nothing is left of an erased", lambda _, state: state.uploads.update({UPLOAD: ERASED})),
    ("every slot", lambda _, state: state.quota.update({KEY: 3})),
    ("every slot", lambda _, state: state.shown_keys.update({KEY: {"active_runs": 1}})),
    ("every run is listed", lambda _, state: state.told_listed.update({KEY: [RUN]})),
    ("every run is listed", lambda _, state: state.told_listed.update({KEY: [RUN, ERASED, RUN]})),
    ("nothing is left", set_run(ERASED, content=1)),
    ("nothing is left", set_run(ERASED, rows=1)),
    ("nothing is left", set_run(ERASED, purged_at=PURGED_AT + 1)),
    ("nothing is left", lambda _, state: state.objects.update({f"runs/{ERASED}/out_9": StoredObject(1, "x")})),
    ("nothing is left", lambda _, state: state.objects.update({"runs/run_9/out_9": StoredObject(1, "x")})),
    ("nothing is left", lambda _, state: state.statuses_of_erased.update({ERASED: [404, 200, 404]})),
    ("every revoked key", set_call("refused", status=200, code=None)),
    ("every revoked key", lambda _, state: state.revoked.clear()),
    ("every output's sha256", say("content", sha256="abd")),
    ("every output's sha256", say("zip", files={"one/1.txt": "abd"})),
    ("every output's sha256", say("zip", files={})),
    ("every output's sha256", say("outputs", outputs=[[OUTPUT, "one/1.txt", "abd", 3]])),
    ("every output's sha256", say("outputs", outputs=[["out_9", "one/1.txt", "abc", 3]])),
    ("every output's sha256", lambda _, state: state.objects.clear()),
    ("every output's sha256", lambda _, state: state.objects.update({f"runs/{RUN}/{OUTPUT}": StoredObject(3, "abd")})),
    ("no event that was seen", say("followed", events=[[SEGMENT, 1, "x", "c"]])),
    ("no run that ended", say("waited", status="failed")),
    ("every waiting call", lambda calls, _: calls["waited"]["about"].update(wait=-31)),
    ("every waiting call", set_call("followed", status=0, code="TimeoutError")),
    ("every stream", say("followed", events=[[SEGMENT, *EVENTS[1]]])),
    ("every stream", say("followed", end="failed")),
    ("every stream", say("followed", events=[[SEGMENT, *EVENTS[0]]])),
    ("no value that a policy", say("events", planted=True)),
    ("no value that a policy", lambda _, state: state.planted_in.append("the log of edge 0")),
    ("no value that a policy", lambda _, state: state.objects.update({f"runs/{RUN}/{OUTPUT}": PLANTED})),
    ("no value that a policy", lambda _, state: state.objects.update({f"runs/{RUN}/out_unnamed": PLANTED})),
    ("every redaction manifest", lambda _, state: state.redactions.update({REDACTED: PENDING})),
    ("every redaction manifest", lambda _, state: state.redactions.update({RUN: {**MANIFEST, "counts": {}}})),
    ("every publication", lambda _, state: state.graphs.update({f"urn:run/{PUBLISHED}": 4})),
    ("every publication", lambda _, state: state.graphs.update({f"urn:run/{ERASED}": 3})),
    ("every publication", lambda _, state: state.graphs.clear()),
    ("no run completes without", lambda _, state: state.shown_runs[READ].update(result={"digests": DIGESTS[1:]})),
    ("no run completes without", lambda _, state: state.shown_runs[ASKED].update(result={"digests": []})),
    ("no run completes without", lambda _, state: state.shown_runs[ASKED].update(status="failed", error=NO_FOLDER)),
    ("nothing that the table says", lambda _, state: state.graphs.clear()),
    ("nothing that the table says", lambda _, state: state.publications.update({(RUN, "kg_1"): "landed"})),
    ("no run that was acknowledged", launch_failed(DIED - 30)),
    ("no run that was acknowledged", launch_failed(DIED + 30)),
    ("no run that was acknowledged", launch_failed(BACK + 30)),
    ("after a contention", set_call("read again", status=500, code="internal")),
    ("after a contention", set_call("read again", status=502, code="runtime_unreachable")),
    ("after a contention", set_call("read again", status=0, code="TimeoutError")),
    ("every change reached its webhook, in order", lambda _, state: state.accepted.remove(PARKED_TOLD)),
    ("every change reached its webhook, in order", lambda _, state: state.accepted.remove(ERASURE_TOLD)),
    ("every change reached its webhook, in order", lambda _, state: state.accepted.remove(ERASED_END_TOLD)),
    ("every change reached its webhook, in order", lambda _, state: state.accepted.reverse()),
    ("every change reached its webhook, in order", lambda _, state: state.accepted.append(("msg_5", RUN, "run.ended"))),
    ("every change reached its webhook, in order", set_run(parked=2)),
    *WRONG_FLOWS,
    *WRONG_SCHEDULES,
]


@pytest.mark.parametrize(
    ("sentence", "change"), WRONG, ids=[f"{number}: {sentence}" for number, (sentence, _) in enumerate(WRONG)]
)
def test_an_inconsistent_history_has_a_violation(tmp_path: Path, sentence: str, change: Change) -> None:
    calls, state = right()
    change(calls, state)
    record = journal_of(tmp_path, calls)
    broken = [rule for rule, (_, found) in rules.found(record, state).items() if found]
    assert any(rule.startswith(sentence) for rule in broken), broken
    text, violations = report(record, state)
    assert violations > 0
    assert f"violations: {violations}" in text


def test_every_rule_has_a_history_that_violates_it() -> None:
    assert {rule.sentence for rule in rules.RULES} == {
        rule.sentence for rule in rules.RULES for sentence, _ in WRONG if rule.sentence.startswith(sentence)
    }


def test_a_run_that_says_that_its_packages_are_not_there_is_no_violation(tmp_path: Path) -> None:
    calls, state = right()
    state.runs[IMPORTED] = state.runs[IMPORTED]._replace(status="failed")
    state.shown_runs[IMPORTED] |= {"status": "failed", "error": UNAVAILABLE}
    assert report(journal_of(tmp_path, calls), state)[1] == 0


def test_a_run_that_no_worker_could_begin_within_the_time_out_is_no_violation(tmp_path: Path) -> None:
    calls, state = right()
    launch_failed(DIED + 80)({}, state)
    assert list(machine_rules.failed_launches(journal_of(tmp_path, calls), state)) == []


def test_a_worker_without_its_database_excuses_a_failed_launch(tmp_path: Path) -> None:
    calls, state = right()
    launch_failed(DIED + 40)({}, state)
    record = journal_of(tmp_path, calls)
    record.fault_windows = [FaultWindow(2, "postgresql away", DIED - 30, DIED + 10)]
    assert list(machine_rules.failed_launches(record, state)) == []
    record.fault_windows = []
    assert len(list(machine_rules.failed_launches(record, state))) == 1


def test_a_part_serves_until_it_ends_or_stops(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for serves in (False, True, False, False, True):
        journal.part("worker 0", serves=serves)
    journal.close()
    (began, ended), (again, never) = read(journal.path).serving["worker 0"]
    assert began <= ended <= again < never == float("inf")


@pytest.mark.parametrize(("seconds_ago", "violations"), [(1.0, 0), (4.0, 1), (60.0, 1)])
def test_a_failed_answer_is_excused_until_shortly_after_a_contention(
    tmp_path: Path, seconds_ago: float, violations: int
) -> None:
    calls, _ = right()
    calls["read again"] |= {"status": 502, "code": "runtime_unreachable"}
    record = journal_of(tmp_path, calls)
    (failed,) = (call for call in record.calls if call.status == 502)
    record.fault_windows = [
        FaultWindow(1, "postgresql table lock", failed.sent - 30, failed.sent - seconds_ago),
        FaultWindow(2, "fill pool", failed.sent - 30, failed.sent + 30),
    ]
    assert len(list(answers.failed_after_contentions(record))) == violations
    assert len(list(answers.unexplained(record))) == (seconds_ago > 45)


def test_a_failed_answer_near_a_fault_is_no_violation(tmp_path: Path) -> None:
    calls, state = right()
    calls["read again"] |= {"status": 502, "code": "runtime_unreachable"}
    journal = Journal(tmp_path / "journal.jsonl")
    journal.fault(1, "kill backend", begins=True)
    noted(journal, calls)
    journal.fault(1, "kill backend", begins=False)
    journal.close()
    assert report(read(journal.path), state)[1] == 0


def test_a_revoked_key_that_still_works_after_two_minutes_is_found(tmp_path: Path) -> None:
    calls, state = right()
    record = journal_of(tmp_path, calls)
    (revoke,) = record.of("revoke_key")
    (late,) = record.of("read_key")
    late.status, late.code, late.sent = 200, None, revoke.answered + 121
    assert "121 s after its revocation" in report(record, state)[0]
