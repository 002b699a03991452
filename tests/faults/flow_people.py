"""People who resume runs, and who decide approvals around their deadlines."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.faults.calls import Calls
from tests.faults.load_record import LoadRecord, Run, choose
from tests.faults.plan import Operation

# Those whose steps take short, and need no packages that may not be there.
_RESUMED: Final = frozenset({"FansOut", "Calls", "Branches", "Expires", "Lapses", "Files", "Asked", "AskedReads"})
_ENDED_BADLY: Final = frozenset({"failed", "cancelled"})
_TRIES: Final = 4
_TRY_AGAIN_SECONDS: Final = 0.7
_MEANT: Final = 120
_ASKED_ONCE_MORE: Final = 0.3
_ASKED_IN_VAIN: Final = 0.1
_LOOKED_AT: Final = 8
# Before or after a deadline.
_AROUND_SECONDS: Final = 0.4
_LONGEST_SECONDS: Final = 5.0


class FlowPeople:
    """Their operations, by kind."""

    def __init__(self, calls: Calls, known: LoadRecord) -> None:
        self._calls = calls
        self._known = known
        self._resumed: set[str] = set()
        self.operations: Mapping[str, Callable[[Operation], bool]] = {
            "resume": self._resume,
            "decide_at_deadline": self._decide_at_deadline,
        }

    def _resume(self, operation: Operation) -> bool:
        """Resumes a run that failed or was cancelled; who hears nothing asks again with the same key."""
        backend = int(operation.chances[5] * 2)
        again, name = operation.chances[2] < 0.2, f"operation-{operation.number}"
        run = self._ended_badly(operation, backend, again=again)
        if run is None:
            return False
        for number in range(_TRIES):
            new = self._calls.resume(run, name, again=again, backend=(backend + number) % 2)
            if new is not None:
                self._resumed.add(run.run_id)
                self._known.add_run(new.run_id, run.start, "queued")
                if operation.chances[3] < _ASKED_ONCE_MORE:
                    self._calls.resume(run, name, again=again, backend=(backend + number + 1) % 2)
                return True
            time.sleep(_TRY_AGAIN_SECONDS)
        return False

    def _ended_badly(self, operation: Operation, edge: int, *, again: bool) -> Run | None:
        def meant(run: Run) -> bool:
            return run.start.workflow in _RESUMED and not run.erased and not run.key.revoked

        for run in self._known.runs(lambda run: meant(run) and not run.ended)[:_LOOKED_AT]:
            answer = self._calls.run(run, edge)
            if answer is not None and answer.status == 200:
                run.status = answer.json()["status"]
        ended = [
            run
            for run in self._known.runs(lambda run: meant(run) and run.status in _ENDED_BADLY)
            # Now and then one is chosen that another run has taken over from.
            if again or run.run_id not in self._resumed or operation.chances[4] < _ASKED_IN_VAIN
        ]
        return choose(ended, operation.chances[0], newest=_MEANT)

    def _decide_at_deadline(self, operation: Operation) -> bool:
        """Decides the approval that expires next, just before or after it does."""
        backend = int(operation.chances[5] * 2)
        pending = self._calls.pending(backend)
        if pending is None:
            return False
        items = sorted(
            (each.deadline_at.ToMilliseconds() / 1000, each.approval.approval_id, each.run_id)
            for each in pending.items
            if each.HasField("deadline_at")
        )
        for deadline, approval_id, run_id in items[:1]:
            seconds = deadline - time.time() + (operation.chances[3] - 0.5) * 2 * _AROUND_SECONDS
            # A clock that was stepped may tell another deadline.
            time.sleep(min(max(0.0, seconds), _LONGEST_SECONDS))
            self._calls.decide(approval_id, run_id, approve=operation.chances[2] < 0.8, backend=backend)
        return True
