"""Rules that must hold at the end, whatever the faults: each compares acknowledged answers with the state."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.faults import (
    answers,
    console_rules,
    content_rules,
    flow_rules,
    machine_rules,
    package_rules,
    schedule_rules,
    waiting_rules,
)
from tests.faults.journal import Call, Record
from tests.faults.state import TERMINAL, RunRow, State

# The key of a result that is stored with its run.
_IN_ITS_ROW: Final = "/row/result"
REVOKED_WITHIN_SECONDS: Final = 120.0


class Rule(NamedTuple):
    """A sentence, how many things it is held against, and what violates it."""

    sentence: str
    held: Callable[[Record, State], int]
    violations: Callable[[Record, State], Iterator[str]]


def lost_starts(record: Record, state: State) -> Iterator[str]:
    for call in record.acknowledged("start"):
        row = state.runs.get(call.said.get("run", ""))
        if row is None:
            yield f"no run: {call}"
        elif (row.key_id, row.client_reference) != (call.about["key"], call.about["idempotency_key"]):
            yield f"another's run: {call} has {row}"
        elif call.said["run"] in state.shown_runs and "run_id" not in state.shown_runs[call.said["run"]]:
            yield f"not shown: {call}: {state.shown_runs[call.said['run']]}"


def doubled_starts(record: Record, state: State) -> Iterator[str]:
    by_name: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in record.acknowledged("start"):
        by_name[call.about["key"], call.about["idempotency_key"]].append(call)
    for name, calls in by_name.items():
        if len({call.said.get("run") for call in calls}) > 1 or len({call.about["body"] for call in calls}) > 1:
            yield f"{name} was answered with several: {[str(call) for call in calls]}"
        if sum(call.status == 201 for call in calls) > 1:
            yield f"{name} was new more than once: {[str(call) for call in calls]}"
        if state.records.get(name) != calls[0].said.get("run"):
            yield f"{name} is bound to {state.records.get(name)}, not to {calls[0].said.get('run')}"
    # Children and resumed runs have the reference of the run that they are for.
    counted = Counter((row.key_id, row.client_reference) for row in flow_rules.starts(state).values())
    for (key_id, reference), count in counted.items():
        if count > 1:
            yield f"{count} runs of {reference} and key {key_id}"
    bound = {run_id for run_id in state.records.values() if run_id is not None}
    with_keys = {run_id for run_id, row in flow_rules.own(state).items() if row.key_id != console_rules.NO_KEY}
    for run_id in with_keys - bound:
        yield f"run {run_id} without an idempotency record"


def changed_events(record: Record, state: State) -> Iterator[str]:
    """Pages must continue without a gap, and agree with one another and with the final state."""
    seen: dict[tuple[Any, int], Any] = {}
    for call in record.acknowledged("read_events", "wait_for_events"):
        segment, events = call.said.get("segment"), call.said.get("events", [])
        if [event[0] for event in events] != list(
            range(call.about["after"] + 1, call.about["after"] + 1 + len(events))
        ) and not _past_the_end(call):
            yield f"a gap in a page: {call}: {[event[0] for event in events]}"
        for event in events:
            if seen.setdefault((segment, event[0]), event) != event:
                yield f"event {event[0]} of {segment} changed: {call}"
    for call, segment, event in waiting_rules.streamed(record):
        if seen.setdefault((segment, event[0]), event) != event:
            yield f"event {event[0]} of {segment} is another one in a stream: {call}"
    shown = {(segment, event[0]): event for segment, events in state.shown_events.items() for event in events}
    for (segment, seq), event in seen.items():
        if segment in state.shown_events and shown.get((segment, seq)) != event:
            yield f"event {seq} of {segment} was {event}, is {shown.get((segment, seq))}"


def _past_the_end(call: Call) -> bool:
    return not call.said.get("events")


def gaps(record: Record, state: State) -> Iterator[str]:
    for segment_id, row in state.segments.items():
        run = state.runs[row.run_id]
        if run.purged_at is None and (row.events, row.first or 1, row.last or 0) != (row.last_seq, 1, row.last_seq):
            yield f"segment {segment_id} of {row.run_id}: {row}"
    for segment_id, events in state.shown_events.items():
        if [event[0] for event in events] != list(range(1, state.segments[segment_id].last_seq + 1)):
            yield f"segment {segment_id} is shown as {[event[0] for event in events]}"


def unfinished(record: Record, state: State) -> Iterator[str]:
    for run_id, row in state.runs.items():
        if row.status not in TERMINAL or row.open_segments or row.pending_approvals:
            yield f"run {run_id} does not rest: {row}"


def revived(record: Record, state: State) -> Iterator[str]:
    """The end of a run, once shown to a reader, must never change."""
    ends: dict[str, tuple[Any, ...]] = {}
    told: dict[str, float] = {}
    for call in sorted(record.acknowledged("read_run", "wait_for_run"), key=lambda call: call.answered):
        end = call.said.get("status"), call.said.get("finished_at"), call.said.get("error"), call.said.get("outputs")
        run_id = call.about["run"]
        # What was asked for before the end was told may be answered by what was there before.
        if run_id in ends and ends[run_id] != end and (end[0] in TERMINAL or call.sent > told[run_id]):
            yield f"{call}: was {ends[run_id]}, then {end}"
        elif end[0] in TERMINAL:
            ends.setdefault(run_id, end)
            told.setdefault(run_id, call.answered)
    for run_id, end in ends.items():
        shown = state.shown_runs.get(run_id)
        if run_id not in state.runs or state.runs[run_id].status != end[0]:
            yield f"run {run_id}: was {end}, is {state.runs.get(run_id)}"
        elif shown is not None and (shown.get("status"), shown.get("finished_at")) != end[:2]:
            yield f"run {run_id}: was {end}, is shown as {shown.get('status')} at {shown.get('finished_at')}"
    for call in record.acknowledged("cancel"):
        status = state.runs[call.about["run"]].status if call.about["run"] in state.runs else None
        if status not in TERMINAL or (call.said.get("status") == "cancelled" and status != "cancelled"):
            yield f"{call}: is {status}"


def undecided(record: Record, state: State) -> Iterator[str]:
    decided: dict[str, str] = {}
    for call in record.acknowledged("decide", "decide_in_console"):
        approval, decision = call.about["approval"], "approved" if call.about["approve"] else "rejected"
        if decided.setdefault(approval, decision) != decision:
            yield f"decided twice: {call}"
        # An erasure takes the approval along.
        if approval in state.approvals and state.approvals[approval].state != decision:
            yield f"{call}: is {state.approvals[approval]}"
        run = state.runs.get(call.about["run"])
        if run is None or (approval not in state.approvals and run.purged_at is None):
            yield f"{call}: is gone"


def taken_slots(record: Record, state: State) -> Iterator[str]:
    """At rest no key has a run in flight, and each has used a unit of its quota for each of its runs."""
    runs = Counter(row.key_id for row in flow_rules.own(state).values() if row.key_id != console_rules.NO_KEY)
    for key_id in runs.keys() | state.quota.keys():
        if runs[key_id] != state.quota.get(key_id, 0):
            yield f"key {key_id} has {runs[key_id]} runs and used {state.quota.get(key_id, 0)} units"
    for key_id, shown in state.shown_keys.items():
        if shown.get("active_runs") != 0:
            yield f"key {key_id} is shown to have {shown.get('active_runs')} runs in flight: {shown}"


def misslisted(record: Record, state: State) -> Iterator[str]:
    own = flow_rules.own(state)
    for key_id, listed in state.told_listed.items():
        there = {run_id for run_id, row in own.items() if row.key_id == key_id}
        if len(listed) != len(there) or set(listed) != there:
            yield f"key {key_id} lists {len(listed)} runs and has {len(there)}: {there ^ set(listed)}"
    for call in record.acknowledged("list_runs"):
        for run_id in call.said.get("runs", []):
            row = own.get(run_id)
            if row is None or row.key_id != call.about["key"]:
                yield f"{call} lists {run_id}"


def left_of_erased(record: Record, state: State) -> Iterator[str]:
    there = defaultdict(list)
    for name in state.objects:
        there[_owner(name, state)].append(name)
    for call in record.of("erase"):
        at = call.said.get("purged_at") if call.acknowledged else call.said.get("data_purged_at")
        row = state.runs.get(call.about["run"])
        if at is not None and (row is None or row.purged_at != _milliseconds(at)):
            yield f"{call} at {at}: {row}"
    for run_id, row in state.runs.items():
        if row.purged_at is None:
            continue
        if row.content or row.rows or there[run_id]:
            yield f"of run {run_id} there are {row} and {there[run_id]}"
        if set(state.statuses_of_erased.get(run_id, [404])) != {404}:
            yield f"run {run_id} is shown as {state.statuses_of_erased[run_id]}"
    for run_id in there.keys() - state.runs.keys() - state.uploads.keys():
        yield f"objects of nobody: {there[run_id][:3]}"


def _owner(name: str, state: State) -> str:
    """The run that an object is of; its name where it waits for one, and nothing where it is nobody's."""
    kind, _, rest = name.partition("/")
    id_ = rest.partition("/")[0]
    if kind == "uploads" and id_ in state.uploads:
        return state.uploads[id_] or id_
    return id_ if kind == "runs" else ""


def _milliseconds(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def _revocations(record: Record) -> dict[str, float]:
    """When the revocation of a key was first acknowledged."""
    calls = reversed(list(record.acknowledged("revoke_key")))
    return {call.about["key"]: call.answered for call in calls}


def used_after_revocation(record: Record, state: State) -> Iterator[str]:
    revoked = _revocations(record)
    last: dict[tuple[str, int], Call] = {}
    for call in record.calls:
        key_id = call.about.get("key", "")
        if key_id not in revoked or "edge" not in call.about:
            continue
        if not answers.for_the_moment(call):
            last[key_id, call.about["edge"]] = call
            if call.code != "unauthorized" and call.sent > revoked[key_id] + REVOKED_WITHIN_SECONDS:
                yield f"{call}: {call.sent - revoked[key_id]:.0f} s after its revocation"
    for call in last.values():
        if call.code != "unauthorized" and call.sent > revoked[call.about["key"]]:
            yield f"the last word on a revoked key: {call}"
    for key_id in revoked.keys() - state.revoked:
        yield f"key {key_id} is not revoked"


def spoiled_outputs(record: Record, state: State) -> Iterator[str]:
    for call in record.acknowledged("list_outputs"):
        for output_id, path, sha256, size in call.said.get("outputs", []):
            row = state.outputs.get(output_id)
            if row is None:
                if state.runs[call.about["run"]].purged_at is None:
                    yield f"output {output_id} is gone: {call}"
            elif (row.path, row.sha256, row.size) != (path, sha256, size):
                yield f"output {output_id} was {path} {sha256} {size}, is {row}"
    for call in record.acknowledged("read_content"):
        if call.said.get("sha256") != call.about["sha256"]:
            yield f"{call}: the bytes have {call.said}"
    for call in record.acknowledged("read_zip"):
        files = call.said.get("files", {})
        there = {row.path: row.sha256 for row in state.outputs.values() if row.run_id == call.about["run"]}
        if files != there and state.runs[call.about["run"]].purged_at is None:
            yield f"{call}: holds {files}, should {there}"
    # What is read of a result in a row is checked above.
    objects = {output_id: row for output_id, row in state.outputs.items() if not row.object_key.endswith(_IN_ITS_ROW)}
    for output_id, row in objects.items():
        stored = state.objects.get(row.object_key)
        if stored is None or (stored.size, stored.sha256) != (row.size, row.sha256):
            yield f"output {output_id} {row} is stored as {stored}"


def untold(record: Record, state: State) -> Iterator[str]:
    """Of every change that a webhook tells of, one message must have arrived, in the order of the changes."""
    told: dict[str, list[str]] = defaultdict(list)
    expired = Counter(run_id for _, run_id in state.expired)
    # Each message counts where it was first accepted.
    for _, run_id, event in dict.fromkeys(state.accepted):
        told[run_id].append(event)
    for run_id, row in _hooked_runs(state):
        changes = ["run.waiting_for_approval"] * row.parked
        changes += ["approval.expired"] * expired[run_id]
        changes += ["run.ended"] if row.status in TERMINAL else []
        changes += ["run.erased"] if row.purged_at is not None else []
        if told[run_id] != (changes if row.parent_run_id is None else []):
            yield f"run {run_id} changed by {changes}, and messages told of {told[run_id]}: {row}"


def _hooked_runs(state: State) -> list[tuple[str, RunRow]]:
    told = state.hooked - state.revoked
    return [(run_id, row) for run_id, row in state.runs.items() if row.key_id in told]


def _changes_of_hooked_runs(_: Record, state: State) -> int:
    return sum(row.parked + (row.status in TERMINAL) + (row.purged_at is not None) for _, row in _hooked_runs(state))


def _calls(*kinds: str) -> Callable[[Record, State], int]:
    return lambda record, _: sum(1 for _ in record.acknowledged(*kinds))


def _sent(*kinds: str) -> Callable[[Record, State], int]:
    return lambda record, _: sum(1 for _ in record.of(*kinds))


def _children(_: Record, state: State) -> int:
    return sum(row.parent_run_id is not None for row in state.runs.values())


def _resumed(_: Record, state: State) -> int:
    return sum(row.resumed_from is not None for row in state.runs.values())


def _judged(judge: Callable[[Record], Iterator[str]]) -> Callable[[Record, State], Iterator[str]]:
    return lambda record, _: judge(record)


def _not_allowed(record: Record, state: State) -> Iterator[str]:
    return answers.not_allowed(record, {run_id for run_id, lost in state.flows.interrupted.items() if lost.followed_by})


_EVERY_CALL: Final[Callable[[Record, State], int]] = lambda record, _: len(record.calls)  # noqa: E731

RULES: Final = (
    Rule("every answer is one that a caller may get", _EVERY_CALL, _not_allowed),
    Rule("no answer fails without a fault", _EVERY_CALL, _judged(answers.unexplained)),
    Rule(
        "after a contention ends no call fails",
        lambda record, _: len(answers.after_contentions(record)),
        _judged(answers.failed_after_contentions),
    ),
    Rule("no start conflicts with nothing", _calls("start"), _judged(answers.conflicts_without_reason)),
    Rule("every acknowledged start has its run", _calls("start"), lost_starts),
    Rule("no idempotency key has two runs", lambda _, state: len(state.records), doubled_starts),
    Rule("no event that was seen changed", _calls("read_events", "wait_for_events", "follow_events"), changed_events),
    Rule("no event sequence has a gap", lambda _, state: len(state.segments), gaps),
    Rule("every run came to its end", lambda _, state: len(state.runs), unfinished),
    Rule("no run that ended changed", _calls("read_run", "wait_for_run", "cancel"), revived),
    Rule("every decision holds", _calls("decide", "decide_in_console"), undecided),
    Rule(
        "every decision is one person's, and recorded once",
        lambda _, state: len(state.approvals),
        console_rules.lost_decisions,
    ),
    Rule("every form that starts a run starts one", _sent("start_in_console"), console_rules.lost_forms),
    Rule("no page shows what was erased", _calls("see_run"), console_rules.shown_after_erasure),
    Rule("every environment is built or says why not", _sent("change_environment"), package_rules.undecided_builds),
    Rule(
        "no step finds half of its packages",
        lambda _, state: len(content_rules.runs_of(state, "Imports")),
        package_rules.half_imports,
    ),
    Rule("nothing is left of a build that broke off", lambda _, state: len(state.builds), package_rules.left_of_builds),
    Rule("every slot is free and every quota right", lambda _, state: len(state.quota), taken_slots),
    Rule("every run is listed once, to its key", _calls("list_runs"), misslisted),
    Rule("nothing is left of an erased run", _calls("erase"), left_of_erased),
    Rule("every revoked key stopped within two minutes", _calls("revoke_key"), used_after_revocation),
    Rule("every output's sha256 holds", lambda _, state: len(state.outputs), spoiled_outputs),
    Rule(
        "every waiting call ends in time",
        _sent("wait_for_run", "wait_for_events", "follow_events"),
        waiting_rules.held_too_long,
    ),
    Rule(
        "every stream is whole, in order, and ends with its run", _sent("follow_events"), waiting_rules.spoiled_streams
    ),
    Rule("no value that a policy redacts is shown", lambda _, state: len(state.redactions), content_rules.shown_values),
    Rule("every redaction manifest is whole", lambda _, state: len(state.redactions), content_rules.wrong_counts),
    Rule(
        "every publication is there once",
        lambda _, state: len(content_rules.runs_of(state, "Publishes")),
        content_rules.wrong_publications,
    ),
    Rule(
        "nothing that the table says is kept is absent from a graph",
        lambda _, state: len(state.publications),
        machine_rules.absent_publications,
    ),
    Rule(
        "no run completes without its inputs",
        lambda _, state: len(machine_rules.reading_runs(state)) + len(state.results_for_people),
        machine_rules.missing_inputs,
    ),
    Rule(
        "no run that was acknowledged ends `launch_failed` while a worker lives or comes back within the time-out",
        _calls("start"),
        machine_rules.failed_launches,
    ),
    Rule("every change reached its webhook, in order", _changes_of_hooked_runs, untold),
    Rule("every child is of one step, and ends with its parent", _children, flow_rules.stray_children),
    Rule("no child is among the runs of its key", _children, flow_rules.listed_children),
    Rule(
        "every item has one value, and is counted once",
        lambda _, state: len(state.flows.items_ended),
        flow_rules.miscounted_items,
    ),
    Rule(
        "every last step ran, once",
        lambda _, state: len(flow_rules.with_last_steps(state)),
        flow_rules.missed_last_steps,
    ),
    Rule(
        "of a decision and a deadline one holds", lambda _, state: len(state.expired), flow_rules.doubly_ended_approvals
    ),
    Rule("every resumed run is linked both ways", _resumed, flow_rules.broken_links),
    Rule(
        "every interrupted run is resumed once, where its workflow says so",
        lambda _, state: len(state.flows.interrupted),
        flow_rules.broken_chains,
    ),
    Rule("every resume is of one run", _calls("resume"), flow_rules.doubled_resumes),
    Rule("every reused value is that of the ended run", _resumed, flow_rules.changed_values),
    Rule("no due time starts two runs", lambda _, state: len(state.schedules.starts), schedule_rules.doubly_started),
    Rule(
        "every due time is decided, once",
        lambda _, state: sum(map(len, schedule_rules.due_times(state).values())),
        schedule_rules.undecided_times,
    ),
    Rule("every planned start starts one run, or is cancelled", _sent("plan_start"), schedule_rules.lost_plans),
    Rule("every trigger is of one run", _calls("trigger_schedule"), schedule_rules.lost_triggers),
)


def longest_use(record: Record) -> float:
    """Seconds from an acknowledged revocation to the last call that was sent and still accepted."""
    revoked = _revocations(record)
    uses = [
        call.sent - revoked[call.about["key"]]
        for call in record.calls
        if call.about.get("key") in revoked and "edge" in call.about and call.acknowledged
    ]
    return max([0.0, *uses])


def found(record: Record, state: State) -> Mapping[str, tuple[int, list[str]]]:
    """By rule how many things it was held against, and what violates it."""
    return {rule.sentence: (rule.held(record, state), list(rule.violations(record, state))) for rule in RULES}
