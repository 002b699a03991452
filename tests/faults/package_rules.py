"""Rules of environments whose packages are built while faults happen."""

from collections.abc import Iterator
from typing import Final

from tests.faults.content_rules import runs_of
from tests.faults.journal import NO_ANSWER, Call, Record
from tests.faults.releases import FIRST_RELEASE, PARTS, requirement
from tests.faults.state import State

# A backend may go on after its caller has gone.
_LATE_SECONDS: Final = 60.0
_BUILT: Final = "ENVIRONMENT_BUILD_STATE_BUILT"
_FAILED: Final = "ENVIRONMENT_BUILD_STATE_FAILED"
# What a step may fail with that has not seen its packages.
_NOT_BEGUN: Final = ("PackagesUnavailable", "the runtime could not carry out the step")


def undecided_builds(record: Record, state: State) -> Iterator[str]:
    """The environment has the packages that were last acknowledged; they are built, or it says why not."""
    found = state.environment
    if found["state"] not in {_BUILT, _FAILED} or (found["state"] == _FAILED) != bool(found["message"]):
        yield f"the environment is {found}"
    changes = list(record.of("change_environment"))
    acknowledged = [call for call in changes if call.acknowledged]
    # A change that nothing acknowledged followed, or that was under way beside it.
    last = [call for call in changes if not any(other.sent > _over(call) for other in acknowledged)]
    right = {call.about["requirement"] for call in last} or {requirement(FIRST_RELEASE)}
    if acknowledged and set(found["locked"]) - right:
        yield f"the environment has {found['locked']}, should have one of {sorted(right)}"


def _over(call: Call) -> float:
    """When a change took effect, or never will."""
    return call.answered + (_LATE_SECONDS if call.status == NO_ANSWER else 0)


def half_imports(record: Record, state: State) -> Iterator[str]:
    """A run imports all modules of one release, or says that its packages are not there."""
    asked = {call.about["requirement"] for call in record.of("change_environment")} | {requirement(FIRST_RELEASE)}
    for run_id in runs_of(state, "Imports"):
        shown = state.shown_runs[run_id]
        if shown["status"] == "completed" and state.runs[run_id].purged_at is None:
            release, parts = shown["result"]["release"], shown["result"]["parts"]
            if parts != [release] * PARTS or requirement(release) not in asked:
                yield f"run {run_id} imported {release} with {parts}"
        elif shown["status"] == "failed" and state.runs[run_id].purged_at is None:
            error = shown["error"]
            if error["code"] == "node_failed" and not any(words in str(error["message"]) for words in _NOT_BEGUN):
                yield f"run {run_id}: {error}"


def left_of_builds(_: Record, state: State) -> Iterator[str]:
    """What is built is whole, with nothing beside it; the packages of the environment are among it."""
    for digest, build in state.builds.items():
        if build.whole and build.beside:
            yield f"beside the packages of {digest}: {build.beside}"
    wanted = state.builds.get(state.environment["digest"])
    if state.environment["state"] == _BUILT and (wanted is None or not wanted.whole):
        yield f"the environment is built, and its packages are {wanted}"
