"""Answers that a caller may get during faults, judged by the journal alone."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from tests.faults.journal import NO_ANSWER, Call, FaultWindow, Record
from tests.faults.plan import CONTENTIONS
from tests.faults.releases import ENVIRONMENT

# What a fault may make of any call: no answer, or one that says that something behind the edge is away.
_FOR_THE_MOMENT: Final = frozenset({(502, "runtime_unreachable"), (502, "runtime_error"), (503, "deployment_updating")})
_AWAY: Final = "keys_table_unreachable"
# Where packages are resolved, their disk may be full.
_NO_ROOM: Final = re.compile("cannot be stored or built on this machine|No space left on device")

# Outputs of a run that has ended are closed until they are swept.
_NOT_SWEPT: Final = (409, "redaction_pending")

_EXPECTED: Final[Mapping[str, list[tuple[int, str | None]]]] = {
    "start": [(201, None), (200, None), (409, "idempotency_conflict"), (429, "too_many_active_runs")],
    "read_run": [(200, None)],
    "read_events": [(200, None)],
    "wait_for_run": [(200, None)],
    "wait_for_events": [(200, None)],
    "follow_events": [(200, None)],
    "read_redaction": [(200, None)],
    "read_steps": [(200, None)],
    "read_approvals": [(200, None)],
    "list_outputs": [(200, None), _NOT_SWEPT],
    "read_content": [(200, None), _NOT_SWEPT],
    "read_zip": [(200, None), _NOT_SWEPT],
    "list_runs": [(200, None)],
    "read_key": [(200, None)],
    # An edge may not have heard of it, nor of any before.
    "await_key": [(200, None), (401, "unauthorized"), (503, "deployment_updating")],
    "cancel": [(202, None), (409, "already_terminal")],
    "erase": [(202, None)],
    # It may have been decided, or its run cancelled, since it was listed.
    "decide": [(200, None), (400, "invalid_request")],
    "resume": [(200, None), (400, "too_many_active_runs")],
    "list_pending": [(200, None)],
    # By a clock that is ahead, or once it was held up, its time has passed.
    "plan_start": [(200, None), (400, "invalid_request")],
    # It may be decided, or cancelled, since it was planned.
    "cancel_planned": [(200, None), (400, "not_found")],
    # The call before it may still be under way.
    "trigger_schedule": [(200, None), (400, "idempotency_conflict")],
    "pause_schedule": [(200, None)],
    "make_key": [(200, None)],
    "rotate_key": [(200, None)],
    "revoke_key": [(200, None)],
    "cancel_any": [(200, None), (400, "already_terminal")],
    "change_environment": [(200, None)],
    "read_environment": [(200, None)],
    "see_page": [(200, None)],
    "see_run": [(200, None)],
    "see_approval": [(200, None)],
    # Tries that a fault cut short count as failed, and a name has ten.
    "sign_in": [(200, None), (429, "page")],
    # As `decide`; nobody decides before what an approval rests on is shown.
    "decide_in_console": [(200, None), (400, "not_pending"), (409, "in_a_moment")],
    # The same form again, after no answer or none at once.
    "start_in_console": [(200, None), (409, "started_before"), (409, "in_a_moment"), (409, "many_uploads")],
}
# Once an erasure was asked for.
_OF_ERASED: Final = frozenset(
    {
        ("read_events", 404, "not_found"),
        ("wait_for_events", 404, "not_found"),
        ("follow_events", 404, "not_found"),
        ("read_redaction", 404, "not_found"),
        ("read_steps", 404, "not_found"),
        ("read_approvals", 404, "not_found"),
        ("read_content", 404, "output_not_found"),
        ("erase", 409, "already_purged"),
        ("decide", 400, "not_found"),
        ("resume", 400, "already_purged"),
        # Erased while the page was made.
        ("see_run", 404, "page"),
        ("see_approval", 404, "page"),
        ("decide_in_console", 404, "page"),
    }
)
# Once a revocation was asked for.
_OF_REVOKED: Final = frozenset({(401, "unauthorized"), (400, "invalid_request")})
# Of an environment that is not built, for now or for good.
_PACKAGES: Final = re.compile(rf"Environment '{ENVIRONMENT}' (?:is being built\.|cannot be built: .+)", re.DOTALL)
# A process comes back, and what it serves with it; a lease ends, a pool finds new connections.
_GRACE_SECONDS: Final = 45.0
# Statements that waited for the same lock go on one after another.
_AFTER_CONTENTION_SECONDS: Final = 3.0
# It waits for an edge to learn of a key, and may find one that has just begun.
_BEGINNING: Final = "await_key"
# Nothing that a call needs is away.
_NO_EXCUSES: Final = ("step clock", "fill pool")


def for_the_moment(call: Call) -> bool:
    """Whether the answer says nothing but that there was a fault."""
    if call.status == NO_ANSWER:
        return True
    if call.status == 503:
        return call.said.get("reason") == _AWAY and call.code == "deployment_updating"
    if call.kind == "change_environment" and any(map(_NO_ROOM.search, call.said.get("problems", ()))):
        return True
    return (call.status, call.code) in _FOR_THE_MOMENT


def not_allowed(record: Record, followed: AbstractSet[str] = frozenset()) -> Iterator[str]:
    """Answers that no caller may get, whatever the faults; the service itself resumed the runs `followed`."""
    erasing = _first(record, "erase", "run")
    revoking = _first(record, "revoke_key", "key")
    resuming = _first(record, "resume", "run")
    for call in record.calls:
        answer = call.status, call.code
        if for_the_moment(call) or answer in _EXPECTED[call.kind]:
            continue
        if (call.kind, *answer) in _OF_ERASED and _other(erasing.get(call.about.get("run", ""), []), call):
            continue
        # Another one has taken over from it.
        if call.kind == "resume" and call.code == "invalid_request":
            run_id = call.about["run"]
            if run_id in followed or _other(resuming[run_id], call):
                continue
        if call.code == "workflow_not_ready" and _waits_for_packages(call):
            continue
        if answer in _OF_REVOKED and _other(revoking.get(call.about.get("key", ""), []), call):
            continue
        yield f"{call} {call.said}"


def _waits_for_packages(call: Call) -> bool:
    return all(_PACKAGES.fullmatch(reason) for reason in call.said["reasons"])


def unexplained(record: Record) -> Iterator[str]:
    """Calls without a proper answer though no fault was near; a stepped clock is no reason for one."""
    for call in record.calls:
        if for_the_moment(call) and call.kind != _BEGINNING and not _near(call, record.fault_windows, _GRACE_SECONDS):
            yield str(call)


def after_contentions(record: Record) -> list[Call]:
    """The calls that nothing but a contention that is over could excuse."""
    contentions = [window for window in record.fault_windows if window.kind in CONTENTIONS]
    others = [window for window in record.fault_windows if window.kind not in CONTENTIONS]
    return [
        call
        for call in record.calls
        if call.kind != _BEGINNING
        and any(call.sent > window.ended for window in contentions)
        and not _near(call, contentions, _AFTER_CONTENTION_SECONDS)
        and not _near(call, others, _GRACE_SECONDS)
    ]


def failed_after_contentions(record: Record) -> Iterator[str]:
    """Failures of calls after a contention, which must not outlast it."""
    for call in after_contentions(record):
        if for_the_moment(call) or call.status >= 500:
            yield f"{call} {call.said}"


def _near(call: Call, windows: list[FaultWindow], grace: float) -> bool:
    return any(
        window.began <= call.answered and call.sent <= window.ended + grace
        for window in windows
        if not window.kind.startswith(_NO_EXCUSES)
    )


def conflicts_without_reason(record: Record) -> Iterator[str]:
    """Conflicts of equal starts while none of them could have been under way."""
    starts = defaultdict(list)
    for call in record.of("start"):
        starts[call.about["key"], call.about["idempotency_key"]].append(call)
    for calls in starts.values():
        for call in calls:
            if call.code == "idempotency_conflict" and all(
                other.about["body"] == call.about["body"] for other in calls
            ):
                earlier = [other for other in calls if other is not call and other.sent <= call.answered]
                if not any(for_the_moment(other) or other.answered >= call.sent for other in earlier):
                    yield str(call)


def _first(record: Record, kind: str, about: str) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = defaultdict(list)
    for call in record.of(kind):
        found[call.about[about]].append(call)
    return found


def _other(calls: list[Call], call: Call) -> bool:
    """Whether another of these calls was sent before this one was answered."""
    return any(other is not call and other.sent <= call.answered for other in calls)
