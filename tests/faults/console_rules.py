"""Rules of people at the console: what they were told that they did, and what pages show."""

from collections import Counter
from collections.abc import Iterator

from tests.faults.journal import Record
from tests.faults.people import APPROVER
from tests.faults.state import State

NO_KEY = ""
"""The key of runs that people start."""


def lost_decisions(record: Record, state: State) -> Iterator[str]:
    """A decision that was acknowledged is the person's, and in the audit trail once."""
    for call in record.acknowledged("decide", "decide_in_console"):
        decision = state.approvals.get(call.about["approval"])
        person = f"user:{APPROVER}"
        if decision is None:
            continue
        if call.kind == "decide_in_console" and decision.person != person:
            yield f"{call}: is {decision}"
    for approval_id, decision in state.approvals.items():
        if decision.audited != (decision.state in {"approved", "rejected", "expired"}):
            yield f"approval {approval_id}: {decision}"


def lost_forms(record: Record, state: State) -> Iterator[str]:
    """A form that starts a run starts one, however often it is sent."""
    runs = {run_id: row for run_id, row in state.runs.items() if row.key_id == NO_KEY}
    started = Counter(row.client_reference for row in runs.values())
    for call in record.of("start_in_console"):
        reference = call.about["reference"]
        told = call.acknowledged or call.code == "started_before"
        if started[reference] > 1 or (told and not started[reference]):
            yield f"{call}: there are {started[reference]}"
        if call.acknowledged and (call.said["run"] not in runs or runs[call.said["run"]].client_reference != reference):
            yield f"{call}: is {runs.get(call.said['run'])}"


def shown_after_erasure(record: Record, state: State) -> Iterator[str]:
    """The page of a run shows nothing that was erased before it was asked for."""
    erased: dict[str, float] = {}
    for call in record.acknowledged("erase"):
        erased.setdefault(call.about["run"], call.answered)
    for call in record.acknowledged("see_run"):
        if call.said["shows"] and call.sent > erased.get(call.about["run"], float("inf")):
            yield f"{call}: erased at {erased[call.about['run']]:.1f}"
    for run_id in state.showing_erased:
        yield f"run {run_id} is erased, and its page shows its inputs or cannot be seen"
