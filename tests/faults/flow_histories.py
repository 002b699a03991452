"""History of flows in which every rule holds, and changes of it that each violate one."""

from collections.abc import Callable
from typing import Any, Final

from tests.faults.flow_state import ChildEvent, Interruption, ItemEnd, StepRow
from tests.faults.state import Decision, OutputRow, RunRow, State, StoredObject

Change = Callable[[dict[str, dict[str, Any]], State], None]

KEY: Final = "ak_1"
CALLS, CHILD, ITEM, FAILED_ITEM = "run_20", "run_21", "run_22", "run_23"
ENDED, RESUMED, EXPIRES = "run_24", "run_25", "run_26"
LOST, FOLLOWS, LOST_FOR_GOOD = "run_27", "run_28", "run_29"
DECIDED, EXPIRED = "apr_20", "apr_21"
BEGAN, FINISHED = 2_000_000, 2_010_000
"""Milliseconds; no process ended about then."""

_ROLLED: Final = '{"rolled": 0.5}'
_ERROR: Final = '{"error": {"type": "ChildFailed", "message": "out of luck"}}'
_PAGE: Final = '[{"item": 0}, {"item": 1}, {"item": 2}]'
_OWN: Final = {
    CALLS: "calls",
    ENDED: "fans out",
    RESUMED: "fans out",
    LOST: "lost",
    FOLLOWS: "lost",
    LOST_FOR_GOOD: "lost for good",
    EXPIRES: "expires",
}
_IDEMPOTENCY_KEYS: Final = {**_OWN, RESUMED: "resume again", FOLLOWS: f"interrupted {LOST}"}


def _run(reference: str, status: str = "completed", **more: Any) -> RunRow:
    row = RunRow(KEY, reference, status, None, 3, 9, 0, 0, 0, started_at=BEGAN, finished_at=FINISHED)
    return row._replace(**more)


def add_flows(calls: dict[str, dict[str, Any]], state: State) -> None:
    """Adds a run with children, a resumed fan-out, and approvals with deadlines."""
    state.runs |= {
        CALLS: _run("calls"),
        CHILD: _run("calls", parent_run_id=CALLS, parent_step="one", result=_ROLLED),
        ITEM: _run("calls", parent_run_id=CALLS, parent_step="each", parent_item=0, result=_ROLLED),
        FAILED_ITEM: _run("calls", "failed", parent_run_id=CALLS, parent_step="each", parent_item=1),
        ENDED: _run("fans out", "failed", resumed_by=RESUMED),
        LOST: _run("lost", "failed", error_code="orphaned", resumed_by=FOLLOWS),
        FOLLOWS: _run("lost", resumed_from=LOST),
        LOST_FOR_GOOD: _run("lost for good", "failed", error_code="orphaned"),
        RESUMED: _run("fans out", resumed_from=ENDED),
        EXPIRES: _run("expires", "failed"),
    }
    for number, (run_id, name) in enumerate(_IDEMPOTENCY_KEYS.items()):
        state.records[KEY, name] = run_id
        state.quota[KEY] += 1
        state.told_listed[KEY].append(run_id)
        state.accepted.append((f"msg_2{number}", run_id, "run.ended"))
    state.accepted.insert(-1, ("msg_30", EXPIRES, "approval.expired"))
    state.shown_runs[CHILD] = {"run_id": CHILD, "status": "completed", "parent_run_id": CALLS}
    state.shown_runs[RESUMED] = {"run_id": RESUMED, "status": "completed", "resumed_from": ENDED}
    for run_id in (ENDED, RESUMED):
        state.outputs[f"out_{run_id}"] = OutputRow(run_id, "list/1.txt", "abc", 3, f"runs/{run_id}/out_{run_id}")
        state.objects[f"runs/{run_id}/out_{run_id}"] = StoredObject(3, "abc")
    state.approvals |= {
        DECIDED: Decision("approved", "internal", 1, CALLS, "review", 50, 100),
        EXPIRED: Decision("rejected", None, 1, EXPIRES, "review", 100, 100),
    }
    state.expired = [(EXPIRED, EXPIRES)]
    flows = state.flows
    flows.interrupted = {
        LOST: Interruption("FansOut", 1, FOLLOWS),
        LOST_FOR_GOOD: Interruption("Calls", None, None),
    }
    flows.steps = {
        (CALLS, "one"): StepRow("completed", value=_ROLLED, kind="workflow"),
        (CALLS, "each"): StepRow("completed", value=f"[{_ROLLED}, {_ERROR}]", kind="workflow", items=(2, 1, 1)),
        (CALLS, "review"): StepRow("completed", kind="approval"),
        (ENDED, "list"): StepRow("completed", value="[0, 1, 2]"),
        (ENDED, "page"): StepRow("cancelled", items=(3, 2, 0)),
        (ENDED, "alarm"): StepRow("completed", phase="on_failure"),
        (ENDED, "clean"): StepRow("failed", phase="always"),
        (RESUMED, "list"): StepRow("completed", attempt=0, value="[0, 1, 2]", reused_from=ENDED),
        (RESUMED, "page"): StepRow("completed", value=_PAGE, items=(3, 3, 0), items_from=ENDED),
        (RESUMED, "alarm"): StepRow("skipped", attempt=0, phase="on_failure"),
        (RESUMED, "clean"): StepRow("completed", phase="always"),
        (EXPIRES, "review"): StepRow("blocked", kind="approval"),
    }
    flows.items[ENDED, "page"] = {
        0: ("completed", '{"item": 0}'),
        1: ("completed", '{"item": 1}'),
        2: ("pending", None),
    }
    flows.items_ended = {
        (CALLS, "each"): [ItemEnd(1, completed=False, attempt=1), ItemEnd(0, completed=True, attempt=1)],
        (ENDED, "page"): [ItemEnd(0, completed=True, attempt=1), ItemEnd(1, completed=True, attempt=1)],
        (RESUMED, "page"): [ItemEnd(item, completed=True, attempt=int(item == 2)) for item in range(3)],
    }
    flows.children = {
        (CALLS, "one"): [*_events(CHILD, "completed", None)],
        (CALLS, "each"): [*_events(ITEM, "completed", 0), *_events(FAILED_ITEM, "failed", 1)],
    }
    about = {"key": KEY, "run": ENDED, "again": False}
    later = dict(calls)
    calls.clear()
    for name, key, said in (("resume", "again", False), ("resume again", "again", True)):
        calls[name] = {"kind": "resume", "about": {**about, "name": key}, "status": 200}
        calls[name]["said"] = {"run": RESUMED, "replayed": said}
    refused = {"kind": "resume", "about": {**about, "name": "other"}, "status": 400, "code": "invalid_request"}
    calls.update({"resume with another key": refused, **later})


def _events(run_id: str, status: str, item: int | None) -> tuple[ChildEvent, ChildEvent]:
    return ChildEvent("child.started", run_id, "queued", item), ChildEvent("child.ended", run_id, status, item)


def _set_run(run_id: str, **changes: Any) -> Change:
    return lambda _, state: state.runs.update({run_id: state.runs[run_id]._replace(**changes)})


def _set_step(run_id: str, step: str, **changes: Any) -> Change:
    of_step = run_id, step
    return lambda _, state: state.flows.steps.update({of_step: state.flows.steps[of_step]._replace(**changes)})


def _lose(run_id: str, *of_run: Any) -> Change:
    return lambda _, state: state.flows.interrupted.update({run_id: Interruption(*of_run)})


def _end(approval_id: str, **changes: Any) -> Change:
    return lambda _, state: state.approvals.update({approval_id: state.approvals[approval_id]._replace(**changes)})


def _add_run(run_id: str, like: str, **changes: Any) -> Change:
    return lambda _, state: state.runs.update({run_id: state.runs[like]._replace(**changes)})


def _without(table: Callable[[State], dict[Any, Any]], key: Any) -> Change:
    def remove(_: dict[str, dict[str, Any]], state: State) -> None:
        del table(state)[key]

    return remove


def _say(call: str, **changes: Any) -> Change:
    return lambda calls, _: calls[call]["said"].update(changes)


def _decided(approval_id: str) -> Change:
    about = {"run": EXPIRES, "approval": approval_id, "approve": False}
    return lambda calls, _: calls.update({"late": {"kind": "decide", "about": about, "status": 200}})


_CHILDREN: Final = "every child is of one step"
_LISTED: Final = "no child is among"
_ITEMS: Final = "every item has one value"
_LAST: Final = "every last step ran"
_ENDS: Final = "of a decision and a deadline"
_LINKED: Final = "every resumed run is linked"
_CHAINS: Final = "every interrupted run"
_RESUMES: Final = "every resume is of one run"
_REUSED: Final = "every reused value"

WRONG_FLOWS: Final[list[tuple[str, Change]]] = [
    (_CHILDREN, _add_run("run_30", CHILD)),
    (_CHILDREN, _set_run(CHILD, parent_run_id="run_30")),
    (_CHILDREN, _set_run(CHILD, key_id="ak_2")),
    (_CHILDREN, _set_run(FAILED_ITEM, status="running")),
    (_CHILDREN, _set_run(CHILD, status="cancelled")),
    (_CHILDREN, _set_run(CHILD, result="null")),
    (_CHILDREN, _set_run(ITEM, result="null")),
    (_CHILDREN, _set_run(FAILED_ITEM, status="completed")),
    (_CHILDREN, _set_run(CALLS, purged_at=FINISHED)),
    (_CHILDREN, lambda _, state: state.flows.children.update({(CALLS, "one"): []})),
    (_CHILDREN, lambda _, state: state.flows.children[CALLS, "one"].extend(_events(CHILD, "completed", None))),
    (_CHILDREN, lambda _, state: state.flows.children[CALLS, "one"].extend(_events("run_30", "completed", None))),
    (_CHILDREN, lambda _, state: state.flows.children.update({(CALLS, "one"): [*_events(CHILD, "failed", None)]})),
    (_LISTED, lambda _, state: state.records.update({(KEY, "child"): CHILD})),
    (_LISTED, lambda _, state: state.told_listed[KEY].append(CHILD)),
    (_LISTED, _say("list", runs=[CHILD])),
    (_LISTED, lambda _, state: state.shown_runs[CHILD].update(parent_run_id=None)),
    ("every run is listed", lambda _, state: state.told_listed[KEY].append(CHILD)),
    ("every run is listed", _say("list", runs=[CHILD])),
    ("every slot is free", lambda _, state: state.quota.update({KEY: state.quota[KEY] + 1})),
    ("every change reached its webhook", lambda _, state: state.accepted.append(("msg_40", CHILD, "run.ended"))),
    (
        "every change reached its webhook",
        lambda _, state: state.accepted.remove(("msg_30", EXPIRES, "approval.expired")),
    ),
    (_ITEMS, _set_step(RESUMED, "page", items=(3, 2, 0))),
    (_ITEMS, _set_step(RESUMED, "page", value=_PAGE.replace("2", "1"))),
    (_ITEMS, _set_step(RESUMED, "page", value='[{"item": 0}, {"item": 1}]')),
    (_ITEMS, _set_step(CALLS, "each", value=f"[{_ERROR}, {_ROLLED}]")),
    (_ITEMS, _set_step(ENDED, "page", items=(3, 1, 0))),
    (_ITEMS, _without(lambda state: state.flows.items[ENDED, "page"], 1)),
    (_ITEMS, lambda _, state: state.flows.items_ended[RESUMED, "page"].append(ItemEnd(2, completed=True, attempt=1))),
    (_LAST, _set_step(ENDED, "clean", status="cancelled")),
    (_LAST, _set_step(ENDED, "alarm", status="skipped")),
    (_LAST, _set_step(RESUMED, "clean", status="skipped")),
    (_LAST, _set_step(RESUMED, "clean", attempt=2)),
    (_LAST, _set_step(RESUMED, "alarm", status="completed")),
    (_ENDS, lambda _, state: state.expired.append((EXPIRED, EXPIRES))),
    (_ENDS, lambda _, state: state.expired.append((DECIDED, CALLS))),
    (_ENDS, lambda _, state: state.expired.clear()),
    (_ENDS, _decided(EXPIRED)),
    (_ENDS, _end(EXPIRED, person="internal")),
    (_ENDS, _end(EXPIRED, audited=2)),
    (_ENDS, _end(EXPIRED, decided_at=99)),
    (_ENDS, _end(DECIDED, decided_at=100)),
    (_ENDS, _set_run(EXPIRES, status="completed")),
    (_ENDS, _set_step(EXPIRES, "review", status="completed")),
    (_LINKED, _set_run(ENDED, resumed_by=None)),
    (_LINKED, _set_run(ENDED, resumed_by=CALLS)),
    (_LINKED, _set_run(ENDED, status="completed")),
    (_LINKED, _set_run(RESUMED, resumed_from=EXPIRES)),
    (_LINKED, _set_run(RESUMED, client_reference="another")),
    (_LINKED, _add_run("run_30", RESUMED)),
    (_LINKED, lambda _, state: state.shown_runs[RESUMED].update(resumed_from=None)),
    (_CHAINS, _lose(LOST_FOR_GOOD, "FansOut", 1, None)),
    (_CHAINS, _lose(LOST_FOR_GOOD, "FansOut", None, None)),
    (_CHAINS, _lose(LOST, "Calls", 1, FOLLOWS)),
    (_CHAINS, _lose(LOST, "FansOut", 4, FOLLOWS)),
    (_CHAINS, _lose(LOST, "FansOut", 1, None)),
    (_CHAINS, _set_run(FOLLOWS, resumed_from=ENDED)),
    (_RESUMES, _say("resume again", run=EXPIRES)),
    (_RESUMES, lambda _, state: state.records.update({(KEY, "resume again"): ENDED})),
    (_RESUMES, _set_run(RESUMED, resumed_from=EXPIRES)),
    (_REUSED, _set_step(RESUMED, "list", value="[0, 1]")),
    (_REUSED, _set_step(ENDED, "list", status="failed")),
    (_REUSED, _without(lambda state: state.outputs, f"out_{RESUMED}")),
    (_REUSED, lambda _, state: state.flows.items[ENDED, "page"].update({1: ("completed", '{"item": 3}')})),
    (_REUSED, lambda _, state: state.flows.items[ENDED, "page"].update({1: ("pending", None)})),
    ("every answer is one", lambda calls, _: calls["resume"].update(status=500, code="internal")),
    ("every answer is one", lambda calls, _: calls["resume"].update(status=400, code="run_not_terminal")),
    ("every decision is one", _end(EXPIRED, audited=0)),
]
