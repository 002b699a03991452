"""Rules of flows: children, items, last steps, deadlines and resumed runs."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.faults import schedule_rules
from tests.faults.flow_state import ChildEvent, StepRow
from tests.faults.journal import Record
from tests.faults.state import TERMINAL, RunRow, State

_COMPLETED: Final = "completed"
_RAN: Final = frozenset({"completed", "failed"})
_DECIDED: Final = frozenset({"approved", "rejected"})
_ON_FAILURE: Final = "on_failure"
_ALWAYS: Final = "always"
RESUMING: Final = frozenset({"FansOut", "Branches"})
"""Workflows with `on_interruption: resume`."""
_MOST_IN_A_ROW: Final = 3
# No process runs the steps of a run that ends like this.
_ENDED_ALONE: Final = frozenset({"orphaned", "launch_failed"})
_EXECUTING: Final = ("worker", "serve")
_RESUME_KEY: Final = "resume {}"
# Between the end of a process and the end of what it ran, beside the steps of clocks.
_NOTICED_SECONDS: Final = 30.0
_FARTHEST_STEP_SECONDS: Final = 7200.0


def own(state: State) -> dict[str, RunRow]:
    """The runs that are listed and counted: all but children."""
    return {run_id: row for run_id, row in state.runs.items() if row.parent_run_id is None}


def starts(state: State) -> dict[str, RunRow]:
    """The runs that callers started with references of their own."""
    return {
        run_id: row
        for run_id, row in own(state).items()
        if row.resumed_from is None and row.triggered_by != schedule_rules.SCHEDULE
    }


def _children(state: State) -> dict[str, RunRow]:
    return {run_id: row for run_id, row in state.runs.items() if row.parent_run_id is not None}


def _kept(state: State, *run_ids: str | None) -> bool:
    """Whether all of these runs are there with their data."""
    rows = [state.runs.get(run_id or "") for run_id in run_ids]
    return all(row is not None and row.purged_at is None for row in rows)


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def stray_children(_: Record, state: State) -> Iterator[str]:
    """One child for each start of a step or an item, of its parent's key, which ends and is erased with its parent."""
    of_steps = Counter((row.parent_run_id, row.parent_step, row.parent_item) for row in _children(state).values())
    for of_step, count in of_steps.items():
        if count > 1:
            yield f"{count} children of {of_step}"
    for run_id, row in _children(state).items():
        parent = state.runs.get(row.parent_run_id or "")
        if parent is None or (row.key_id, row.client_reference) != (parent.key_id, parent.client_reference):
            yield f"child {run_id} {row} is of {parent}"
        elif parent.status in TERMINAL and row.status not in TERMINAL:
            yield f"child {run_id} is {row.status}, its parent {row.parent_run_id} ended as {parent.status}"
        elif parent.purged_at is not None and row.purged_at is None:
            yield f"child {run_id} has its data, its parent {row.parent_run_id} is erased"
        elif parent.purged_at is None:
            told = state.flows.children.get((row.parent_run_id or "", row.parent_step or ""), [])
            yield from _wrongly_told(run_id, row, [event for event in told if event.run_id == run_id])
    for (parent_id, step), events in state.flows.children.items():
        for run_id in {event.run_id for event in events} - state.runs.keys():
            yield f"run {parent_id} tells of {run_id} for {step}, which is not there"
    for (run_id, step), ended in state.flows.steps.items():
        if ended.kind == "workflow" and ended.status == _COMPLETED and ended.reused_from is None:
            yield from _wrong_results(state, run_id, step, ended)


def _wrongly_told(run_id: str, row: RunRow, events: list[ChildEvent]) -> Iterator[str]:
    """Each child is started once by the events of its parent, and ended at most once, as it did."""
    right = [("child.started", "queued"), ("child.ended", row.status)]
    told = [(event.type, event.status) for event in events]
    if told not in (right, right[:1]) or any(event.item != row.parent_item for event in events):
        yield f"child {run_id} {row} is reported by the events {events}"


def _wrong_results(state: State, run_id: str, step: str, ended: StepRow) -> Iterator[str]:
    """A step that completed has the results of its children, each of which completed, or an error in place of it."""
    of_step = {
        row.parent_item: (child_id, row)
        for child_id, row in _children(state).items()
        if (row.parent_run_id, row.parent_step) == (run_id, step)
    }
    kept = _reused_items(state, run_id, step)
    values = {None: _value(ended.value)} if ended.items is None else dict(enumerate(_value(ended.value)))
    for index, value in values.items():
        child_id, row = of_step.get(index, (None, None))
        if index in kept:
            continue
        if _is_error(value) and ended.items is not None:
            if row is not None and row.status == _COMPLETED and row.purged_at is None:
                yield f"item {index} of {step} of run {run_id} is {value}, its child {child_id} completed"
        elif row is None or row.status != _COMPLETED:
            yield f"{step} of run {run_id} is {value} at {index}, its child {child_id} is {row}"
        elif row.purged_at is None and _value(row.result) != value:
            yield f"{step} of run {run_id} is {value} at {index}, its child {child_id} has {row.result}"


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"error"}


def listed_children(record: Record, state: State) -> Iterator[str]:
    """A child is in no list, and none was started under an idempotency key; its key reads it by its id."""
    bound = set(state.records.values())
    listed = {run_id for call in record.acknowledged("list_runs") for run_id in call.said.get("runs", [])}
    listed.update(run_id for runs in state.told_listed.values() for run_id in runs)
    for run_id, row in _children(state).items():
        if run_id in bound:
            yield f"child {run_id} has an idempotency record"
        if run_id in listed:
            yield f"child {run_id} is listed"
        shown = state.shown_runs.get(run_id)
        if shown is not None and shown.get("parent_run_id") != row.parent_run_id:
            yield f"child {run_id} of {row.parent_run_id} is shown as {shown}"


def miscounted_items(_: Record, state: State) -> Iterator[str]:
    """Items are counted as their events tell, once each; a list that is complete has a value for each."""
    for (run_id, step), row in state.flows.steps.items():
        if row.items is None or row.reused_from is not None:
            continue
        total, completed, failed = row.items
        ends = state.flows.items_ended.get((run_id, step), [])
        counted = sum(end.completed for end in ends), sum(not end.completed for end in ends)
        if counted != (completed, failed) or len({end.item for end in ends}) != len(ends):
            yield f"{step} of run {run_id} counts {row.items}, its events tell {ends}"
        if row.status != _COMPLETED:
            statuses = Counter(status for status, _ in state.flows.items.get((run_id, step), {}).values())
            if (statuses[_COMPLETED], statuses["failed"]) != (completed, failed) or statuses.total() != total:
                yield f"{step} of run {run_id} counts {row.items}, its items are {dict(statuses)}"
            continue
        values = _value(row.value)
        by_index = {end.item: end.completed for end in ends}
        if by_index.keys() != set(range(total)) or len(values) != total:
            yield f"{step} of run {run_id} has {total} items, its value is {values}, its events tell {ends}"
        elif [not _is_error(value) for value in values] != [by_index[index] for index in range(total)]:
            yield f"{step} of run {run_id} has {values}, its events tell {ends}"
        elif any("item" in value and value["item"] != index for index, value in enumerate(values)):
            yield f"{step} of run {run_id} has its items in another order: {values}"


def with_last_steps(state: State) -> dict[str, dict[str, StepRow]]:
    """The runs whose last steps should have run, with all of their steps: those in which a step began."""
    by_run: dict[str, dict[str, StepRow]] = defaultdict(dict)
    for (run_id, step), row in state.flows.steps.items():
        by_run[run_id][step] = row
    return {run_id: steps for run_id, steps in by_run.items() if any(row.phase for row in steps.values())}


def missed_last_steps(record: Record, state: State) -> Iterator[str]:
    """Steps of `always` ran in each run in which a step began, those of `on_failure` in those that failed.

    But for runs that nobody executes any more, or whose process ended while it executed them.
    """
    for run_id, steps in with_last_steps(state).items():
        run = state.runs[run_id]
        began = any(row.phase is None and (row.attempt > 0 or row.status == _COMPLETED) for row in steps.values())
        excused = run.error_code in _ENDED_ALONE or not began or _process_ended(record, state, run)
        for step, row in steps.items():
            wanted = row.phase == _ALWAYS or (row.phase == _ON_FAILURE and run.status == "failed")
            if row.phase is not None and row.attempt > 1:
                yield f"{step} of run {run_id} ran {row.attempt} times: {row}"
            elif row.phase is not None and not (wanted and began) and row.status in _RAN:
                yield f"{step} of run {run_id} ran, which ended as {run}: {row}"
            elif wanted and not excused and row.status not in _RAN:
                yield f"{step} of run {run_id} did not run, which ended as {run}: {row}"


def _process_ended(record: Record, state: State, run: RunRow) -> bool:
    """Whether a process that executes runs ended, or stopped for long, between the begin and the end of a run."""
    if run.started_at is None or run.finished_at is None:
        return True
    stepped = any(window.kind.startswith("step clock") for window in record.fault_windows)
    margin = _FARTHEST_STEP_SECONDS if stepped else _NOTICED_SECONDS
    began, ended = (at / 1000 - state.wall_clock_ahead for at in (run.started_at, run.finished_at))
    return any(
        began - margin <= gone <= ended + margin
        for name, spans in record.serving.items()
        if name.startswith(_EXECUTING)
        for _, gone in spans
    )


def doubly_ended_approvals(record: Record, state: State) -> Iterator[str]:
    """A deadline ends an approval that nobody decided, once, and no approval that a person decided before it."""
    told = Counter(approval_id for approval_id, _ in state.expired)
    for approval_id, count in told.items():
        if count > 1:
            yield f"the deadline of approval {approval_id} passed {count} times"
    for call in record.acknowledged("decide", "decide_in_console"):
        if told[call.about["approval"]]:
            yield f"{call}: its deadline has passed before"
    for approval_id, each in state.approvals.items():
        by_person = each.state in _DECIDED and each.person is not None
        by_deadline = each.state == "expired" or (each.state == "rejected" and each.person is None)
        if told[approval_id] != by_deadline or each.audited != by_person + by_deadline:
            yield f"approval {approval_id} {each} has {told[approval_id]} deadlines that passed"
        elif each.deadline_at is not None and (by_person or by_deadline):
            in_time = each.decided_at is not None and each.decided_at < each.deadline_at
            if in_time != by_person:
                yield f"approval {approval_id} was not ended at the right time: {each}"
        run, step = state.runs.get(each.run_id), state.flows.steps.get((each.run_id, each.step))
        if (by_deadline or each.state == "rejected") and run is not None and run.status == _COMPLETED:
            yield f"approval {approval_id} {each} is of a run that completed: {run}"
        if step is not None and (step.status == _COMPLETED) != (each.state == "approved"):
            yield f"approval {approval_id} {each} is of a step that is {step}"


def _resumed(state: State) -> dict[str, RunRow]:
    return {run_id: row for run_id, row in state.runs.items() if row.resumed_from is not None}


def broken_links(record: Record, state: State) -> Iterator[str]:
    """A resumed run names the ended one, which names its newest one; there are more only where that was asked for."""
    asked = Counter(call.about["run"] for call in record.of("resume") if call.about["again"])
    counted = Counter(row.resumed_from for row in _resumed(state).values())
    for run_id, row in _resumed(state).items():
        ended = state.runs.get(row.resumed_from or "")
        newest = None if ended is None else state.runs.get(ended.resumed_by or "")
        if ended is None or newest is None or newest.resumed_from != row.resumed_from:
            yield f"run {run_id} resumed {row.resumed_from}, which is {ended}"
            continue
        if (row.key_id, row.client_reference) != (ended.key_id, ended.client_reference):
            yield f"run {run_id} {row} resumed {row.resumed_from}, which is another's: {ended}"
        if ended.status not in {"failed", "cancelled"} or ended.parent_run_id is not None:
            yield f"run {run_id} resumed {row.resumed_from}, which is {ended}"
        if counted[row.resumed_from] > 1 + asked[row.resumed_from]:
            yield f"{counted[row.resumed_from]} runs resumed {row.resumed_from}, {asked[row.resumed_from]} once more"
        shown = state.shown_runs.get(run_id)
        if shown is not None and shown.get("resumed_from") != row.resumed_from:
            yield f"run {run_id} resumed {row.resumed_from}, is shown as {shown}"
    for run_id, row in state.runs.items():
        if row.resumed_by is not None and counted[run_id] == 0:
            yield f"run {run_id} is resumed by {row.resumed_by}, which is {state.runs.get(row.resumed_by)}"


def broken_chains(_: Record, state: State) -> Iterator[str]:
    """One run follows each interrupted run of a workflow that says so, but by a person or after three; else none."""
    counted: dict[str | None, set[str]] = defaultdict(set)
    for run_id, row in _resumed(state).items():
        counted[row.resumed_from].add(run_id)
    for run_id, lost in state.flows.interrupted.items():
        row = state.runs[run_id]
        bound = state.records.get((row.key_id, f"interrupted {run_id}"))
        if lost.followed_by != bound:
            yield f"run {run_id} {lost} is followed by {bound}"
        if lost.followed_by is not None:
            if lost.workflow not in RESUMING or lost.followed_by not in counted[run_id]:
                yield f"run {run_id} {lost} is resumed by {sorted(counted[run_id])}"
            if lost.ordinal is None or lost.ordinal > _MOST_IN_A_ROW:
                yield f"run {run_id} {lost} is followed by one too many"
            continue
        wanted = lost.workflow in RESUMING and (lost.ordinal or 0) <= _MOST_IN_A_ROW
        if wanted and not counted[run_id] and row.purged_at is None and row.key_id not in state.revoked:
            yield f"run {run_id} {lost} is followed by none: {row}"


def doubled_resumes(record: Record, state: State) -> Iterator[str]:
    """However often a resume is asked for under a key, there is one run of it."""
    by_name: dict[tuple[str, str], set[str]] = defaultdict(set)
    for call in record.acknowledged("resume"):
        name = call.about["key"], call.about["name"]
        by_name[name].add(call.said["run"])
        bound = state.records.get((name[0], _RESUME_KEY.format(name[1])))
        row = state.runs.get(call.said["run"])
        if bound != call.said["run"] or row is None or row.resumed_from != call.about["run"]:
            yield f"{call}: answered {call.said['run']}, {row}; the key is bound to {bound}"
    for name, runs in by_name.items():
        if len(runs) > 1:
            yield f"{name} was answered with {sorted(runs)}"


def changed_values(_: Record, state: State) -> Iterator[str]:
    """A step or item that is reused has the value and the files of the run that it is from."""
    for (run_id, step), row in state.flows.steps.items():
        if row.reused_from is not None and row.status == _COMPLETED and _kept(state, run_id, row.reused_from):
            before = state.flows.steps.get((row.reused_from, step))
            if before is None or before.status != _COMPLETED or _value(before.value) != _value(row.value):
                yield f"{step} of run {run_id} is {row}, was {before}"
            elif _files(state, run_id, step) != _files(state, row.reused_from, step):
                files = _files(state, run_id, step), _files(state, row.reused_from, step)
                yield f"{step} of run {run_id} left {files[0]}, in {row.reused_from} {files[1]}"
        if row.items_from is None or not _kept(state, run_id, row.items_from):
            continue
        values = _values_of_items(state, run_id, step)
        before_values = _values_of_items(state, row.items_from, step)
        for index in _reused_items(state, run_id, step):
            if index not in before_values or values.get(index) != before_values[index]:
                yield f"item {index} of {step} of run {run_id} is {values.get(index)}, was {before_values.get(index)}"


def _reused_items(state: State, run_id: str, step: str) -> set[int]:
    """The items of a fan-out that an ended run had completed."""
    return {end.item for end in state.flows.items_ended.get((run_id, step), []) if end.attempt == 0}


def _values_of_items(state: State, run_id: str, step: str) -> Mapping[int, Any]:
    row = state.flows.steps.get((run_id, step))
    if row is not None and row.status == _COMPLETED:
        return dict(enumerate(_value(row.value)))
    items = state.flows.items.get((run_id, step), {})
    return {index: _value(value) for index, (status, value) in items.items() if status == _COMPLETED}


def _files(state: State, run_id: str, step: str) -> dict[str, str]:
    """The digests of the outputs of a step, by path."""
    there = (row for row in state.outputs.values() if row.run_id == run_id and row.path.startswith(f"{step}/"))
    return {row.path: row.sha256 for row in there}
