"""History of schedules in which every rule holds, and changes of it that each violate one."""

from typing import Any, Final

from tests.faults.console_rules import NO_KEY
from tests.faults.flow_histories import Change
from tests.faults.schedule_rules import MINUTE, SCHEDULE
from tests.faults.schedule_state import ScheduleRow, ScheduleStart, SkippedTimes
from tests.faults.state import RunRow, State

FIRST, LATER, TRIGGERED, ONCE = "run_40", "run_41", "run_42", "run_43"
MINUTELY, PLAN, CANCELLED = "sch_1", "sch_2", "sch_3"
NAME: Final = "alone"
BEGAN: Final = 100 * MINUTE + 1_000
"""Due times follow at the minutes 101 to 105, of which 103 and 104 are skipped."""

_PLANNED_AT: Final = 102 * MINUTE + 500


def add_schedules(calls: dict[str, dict[str, Any]], state: State) -> None:
    """Adds a schedule with due times that started runs, were skipped and failed, and two planned starts."""
    for run_id, reference, created_at in (
        (FIRST, None, 101 * MINUTE),
        (LATER, None, 102 * MINUTE),
        (TRIGGERED, None, 102 * MINUTE),
        (ONCE, "planned", _PLANNED_AT),
    ):
        state.runs[run_id] = RunRow(
            NO_KEY, reference, "completed", None, 3, 9, 0, 0, 0, triggered_by=SCHEDULE, created_at=created_at
        )
    schedules = state.schedules
    schedules.rows = {
        MINUTELY: ScheduleRow(NAME, BEGAN, last_outcome="failed"),
        PLAN: ScheduleRow(None, BEGAN, last_outcome="started", last_run_id=ONCE),
    }
    schedules.starts = [
        ScheduleStart(FIRST, NAME, 101 * MINUTE),
        ScheduleStart(LATER, NAME, 102 * MINUTE),
        ScheduleStart(TRIGGERED, NAME, None),
        ScheduleStart(ONCE, PLAN, _PLANNED_AT),
    ]
    schedules.skipped = {NAME: [SkippedTimes(103 * MINUTE, 104 * MINUTE, 2)]}
    schedules.failed = {NAME: [105 * MINUTE]}
    schedules.paused_at = {NAME: 106 * MINUTE}
    calls |= {
        "planned": _planned("planned", PLAN),
        "planned, then cancelled": _planned("cancelled", CANCELLED),
        "cancelled": {"kind": "cancel_planned", "about": {"schedule": CANCELLED}, "status": 200},
        "triggered": _triggered(),
        "triggered again": _triggered(),
    }


def _planned(reference: str, schedule_id: str) -> dict[str, Any]:
    about = {"reference": reference, "at": _PLANNED_AT}
    return {"kind": "plan_start", "about": about, "status": 200, "said": {"schedule": schedule_id}}


def _triggered() -> dict[str, Any]:
    about = {"schedule": NAME, "name": "operation-1"}
    return {"kind": "trigger_schedule", "about": about, "status": 200, "said": {"run": TRIGGERED}}


def _set_schedule(schedule_id: str, **changes: Any) -> Change:
    def change(_: dict[str, dict[str, Any]], state: State) -> None:
        state.schedules.rows[schedule_id] = state.schedules.rows[schedule_id]._replace(**changes)

    return change


def _add_start(run_id: str, schedule: str, due_at: int | None) -> Change:
    def add(_: dict[str, dict[str, Any]], state: State) -> None:
        state.runs[run_id] = state.runs[LATER]
        state.schedules.starts.append(ScheduleStart(run_id, schedule, due_at))

    return add


def _add_run(reference: str) -> Change:
    def add(_: dict[str, dict[str, Any]], state: State) -> None:
        state.runs["run_44"] = state.runs[ONCE]._replace(client_reference=reference)

    return add


def _without_first_run(_: dict[str, dict[str, Any]], state: State) -> None:
    del state.runs[FIRST]


def _without_first_start(_: dict[str, dict[str, Any]], state: State) -> None:
    del state.schedules.starts[0]


def _without_plan(_: dict[str, dict[str, Any]], state: State) -> None:
    del state.schedules.rows[PLAN]


_ONE: Final = "no due time starts two runs"
_DECIDED: Final = "every due time is decided"
_PLANS: Final = "every planned start"
_TRIGGERS: Final = "every trigger"

WRONG_SCHEDULES: Final[list[tuple[str, Change]]] = [
    (_ONE, _add_start("run_44", NAME, 101 * MINUTE)),
    (_ONE, _add_run("another")),
    (_ONE, _without_first_run),
    (_ONE, _without_first_start),
    (_DECIDED, _without_first_start),
    (_DECIDED, lambda _, state: state.schedules.failed.clear()),
    (_DECIDED, lambda _, state: state.schedules.skipped.clear()),
    (_DECIDED, lambda _, state: state.schedules.failed[NAME].append(101 * MINUTE)),
    (_DECIDED, lambda _, state: state.schedules.skipped[NAME].append(SkippedTimes(102 * MINUTE, 102 * MINUTE, 1))),
    (_DECIDED, lambda _, state: state.schedules.skipped.update({NAME: [SkippedTimes(103 * MINUTE, 104 * MINUTE, 3)]})),
    (_DECIDED, _set_schedule(MINUTELY, next_at=107 * MINUTE)),
    (_DECIDED, _set_schedule(MINUTELY, waiting_at=105 * MINUTE)),
    (_PLANS, _add_run("planned")),
    (_PLANS, _add_run("cancelled")),
    (_PLANS, _add_start("run_44", CANCELLED, _PLANNED_AT)),
    (_PLANS, _add_start("run_44", PLAN, _PLANNED_AT + 1)),
    (_PLANS, _set_schedule(PLAN, last_outcome="failed")),
    (_PLANS, _set_schedule(PLAN, last_run_id=FIRST)),
    (_PLANS, _set_schedule(PLAN, next_at=_PLANNED_AT)),
    (_PLANS, _without_plan),
    (_PLANS, lambda _, state: state.runs.update({ONCE: state.runs[ONCE]._replace(created_at=_PLANNED_AT - 1)})),
    (_TRIGGERS, lambda calls, _: calls["triggered again"]["said"].update(run=FIRST)),
    (_TRIGGERS, lambda calls, _: calls["triggered"]["about"].update(schedule="queued")),
    (_TRIGGERS, _add_start("run_44", NAME, None)),
    ("every answer is one", lambda calls, _: calls["planned"].update(status=400, code="workflow_not_found")),
    ("every answer is one", lambda calls, _: calls["triggered"].update(status=500, code="internal")),
]
