"""The steady load: operations of the plan, several at once, each on the current state of the deployment."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from tests.faults.calls import Calls
from tests.faults.load_record import Key, LoadRecord, Run, Start, choose
from tests.faults.plan import Operation
from tests.faults.planted import planted_value
from tests.support.wire import Answer
from workflow_api.v1 import keys_pb2

_THREADS: Final = 12
_TRIES: Final = 5
_TRY_AGAIN_SECONDS: Final = 0.7
_MAX_KEYS: Final = 12
_FEWEST_KEYS: Final = 4
# So few that a key's slots are full now and then.
_SLOTS: Final = 30
_SCOPES: Final = (1, 2, 3, 4, 5)
ASKED_READS: Final = "AskedReads"
"""The workflow that reads its inputs once more after an approval."""
PUBLISHES: Final = "Publishes"
"""The workflow that publishes to a knowledge graph."""
BUSY: Final = "Busy"
"""The workflow whose step takes `BUSY_SECONDS`."""
BUSY_SECONDS: Final = 6
FANS_OUT: Final = "FansOut"
"""The workflow with a step for each item of a list."""
CALLS: Final = "Calls"
"""The workflow that starts others as its steps."""
EXPIRES: Final = "Expires"
"""The workflow whose approval nobody decides for long."""
_KEY_SECONDS: Final = 60
_LOOKED_AT: Final = 5
_LONGEST_CALL_SECONDS: Final = 40.0
# How long callers wait for something new, and the longest that they follow a stream.
_WAITS: Final = (1, 3, 6)
_FOLLOW_SECONDS: Final = 8.0
# Most operations are on runs that began lately.
_MEANT: Final = 120


def new_key(name: str) -> keys_pb2.CreateKeyRequest:
    return keys_pb2.CreateKeyRequest(
        name=name,
        scopes=_SCOPES,  # type: ignore[arg-type]  # the numbers of the five scopes
        workflow_access=keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE),
        rate_limit_rpm=10_000,
        daily_run_quota=100_000,
        max_concurrent_runs=_SLOTS,
    )


class Load:
    """Carries out operations until it is stopped; `answered` counts those that were answered.

    `workflows` are those to start, with how often each comes beside the others; `hook` makes a webhook of a key;
    `others` are operations of other kinds.
    """

    def __init__(
        self,
        calls: Calls,
        known: LoadRecord,
        workflows: Mapping[str, int],
        hook: Callable[[str], None],
        others: Mapping[str, Callable[[Operation], bool]],
    ) -> None:
        self._workflows = workflows
        self._hook = hook
        self._calls = calls
        self._known = known
        self._lock = threading.Lock()
        self._done: Mapping[str, Callable[[Operation], bool]] = {
            "start": self._start,
            "start_again": self._start_again,
            "start_twice_at_once": self._start_twice_at_once,
            "start_with_another_body": self._start_with_another_body,
            "read_run": self._read_run,
            "read_events": self._read_events,
            "read_outputs": self._read_outputs,
            "read_zip": self._read_zip,
            "wait_for_run": self._wait_for_run,
            "wait_for_events": self._wait_for_events,
            "follow_events": self._follow_events,
            "read_redaction": self._read_redaction,
            "read_board": self._read_board,
            "list_runs": self._list_runs,
            "read_key": self._read_key,
            "decide": self._decide,
            "cancel": self._cancel,
            "erase": self._erase,
            "use_revoked_key": self._use_revoked_key,
            "make_key": self._make_key,
            "rotate_key": self._rotate_key,
            "revoke_key": self._revoke_key,
            **others,
        }
        self.answered = 0
        self.by_kind: dict[str, int] = {}

    def begin(self) -> None:
        """Makes the first keys."""
        for number in range(_FEWEST_KEYS + 1):
            key = self._calls.make_key(new_key(f"first {number}"), 0)
            assert key is not None
            assert self._reaches_both(key)
            self._hook(key.key_id)
            self._known.add_key(key)

    def run(self, operations: Iterator[Operation], rate: float, enough: Callable[[], bool]) -> None:
        """Carries out operations, at most `rate` a second, until there are enough."""
        slots = threading.Semaphore(2 * _THREADS)
        with ThreadPoolExecutor(_THREADS) as pool:
            due = time.monotonic()
            failures: list[Future[None]] = []
            while not enough() and not failures:
                slots.acquire()
                due = max(due + 1 / rate, time.monotonic() - 1)
                time.sleep(max(0.0, due - time.monotonic()))
                done = pool.submit(self._carry_out, next(operations))
                done.add_done_callback(lambda _: slots.release())
                done.add_done_callback(lambda job: failures.append(job) if job.exception() else None)
        for job in failures:
            job.result()

    def settle_starts(self) -> None:
        """Repeats every start whose outcome is unknown."""
        for start in self._known.take_open():
            self._until_answered(start, 0, tries=30)

    def start_runs(self, workflow: str, name: str, runs: int) -> None:
        """Starts so many runs of a workflow, of all keys in turn; `name` begins their idempotency keys."""
        keys = self._known.usable_keys()
        for number in range(runs):
            start = _start_of(keys[number % len(keys)], workflow, f"{name}-{number}")
            self._until_answered(start, number % 2)

    def waiting(self) -> int:
        """How many approvals wait for a decision."""
        pending = self._calls.pending(0) or self._calls.pending(1)
        return 0 if pending is None else len(pending.items)

    def approve_all(self) -> None:
        """Approves whatever waits for it."""
        pending = self._calls.pending(0) or self._calls.pending(1)
        for number, each in enumerate(() if pending is None else pending.items):
            self._calls.decide(each.approval.approval_id, each.run_id, approve=True, backend=number % 2)

    def _carry_out(self, operation: Operation) -> None:
        if self._done[operation.kind](operation):
            with self._lock:
                self.answered += 1
                self.by_kind[operation.kind] = self.by_kind.get(operation.kind, 0) + 1

    def _start(self, operation: Operation) -> bool:
        start = self._new_start(operation)
        return self._until_answered(start, _edge(operation))

    def _start_again(self, operation: Operation) -> bool:
        run = choose(self._known.runs(lambda run: not run.key.revoked), operation.chances[0])
        return run is not None and self._until_answered(run.start, _edge(operation))

    def _start_twice_at_once(self, operation: Operation) -> bool:
        start = self._new_start(operation)
        other = threading.Thread(target=self._until_answered, args=(start, 1 - _edge(operation)))
        other.start()
        answered = self._until_answered(start, _edge(operation))
        other.join()
        return answered

    def _start_with_another_body(self, operation: Operation) -> bool:
        run = choose(self._known.runs(lambda run: not run.key.revoked), operation.chances[0], newest=_MEANT)
        if run is None:
            return False
        other = {**run.start.body, "input_text": "another text"}
        return _answered(self._calls.start(run.start, _edge(operation), other))

    def _new_start(self, operation: Operation) -> Start:
        keys = self._known.usable_keys()
        key = choose(keys, operation.chances[0])
        assert key is not None
        weighted = [name for name, weight in self._workflows.items() for _ in range(weight)]
        workflow = choose(weighted, operation.chances[1])
        assert workflow is not None
        idempotency_key = f"operation-{operation.number}"
        start = _start_of(key, workflow, idempotency_key)
        if workflow == "Redacts":
            start.body["input_text"] = f"text of {planted_value(operation.number)}"
        return start

    def _until_answered(self, start: Start, edge: int, tries: int = _TRIES) -> bool:
        """Repeats a start until it has a final answer, as callers should."""
        for number in range(tries):
            answer = self._calls.start(start, (edge + number) % 2)
            if answer is not None:
                if answer.status in {200, 201}:
                    record = answer.json()
                    self._known.add_run(record["run_id"], start, record["status"])
                    return True
                if answer.status in {401, 429} and answer.code != "rate_limited":
                    return True
                if answer.code == "workflow_not_ready":
                    return True
            time.sleep(_TRY_AGAIN_SECONDS)
        self._known.leave_open(start)
        return False

    def _read_run(self, operation: Operation) -> bool:
        run = self._some_run(operation)
        return run is not None and self._refresh(run, _edge(operation))

    def _refresh(self, run: Run, edge: int) -> bool:
        answer = self._calls.run(run, edge)
        if answer is None or not _answered(answer):
            return False
        if answer.status == 200:
            run.status = answer.json()["status"]
        return True

    def _wait_for_run(self, operation: Operation) -> bool:
        run = self._waited_for(operation)
        if run is None:
            return False
        answer = self._calls.wait_for_run(run, self._wait_seconds(operation), _edge(operation))
        if answer is not None and answer.status == 200:
            run.status = answer.json()["status"]
        return _answered(answer)

    def _wait_for_events(self, operation: Operation) -> bool:
        run = self._waited_for(operation)
        if run is None:
            return False
        segment = choose(list(run.seen), 0.0, newest=1)
        after = 0 if segment is None else run.seen[segment]
        seconds = self._wait_seconds(operation)
        return _answered(self._calls.wait_for_events(run, segment, after, seconds, _edge(operation)))

    def _follow_events(self, operation: Operation) -> bool:
        run = self._waited_for(operation)
        if run is None:
            return False
        last_id = run.last_id if operation.chances[3] < 0.5 else None
        followed = self._calls.follow(run, last_id, _FOLLOW_SECONDS * operation.chances[4], _edge(operation))
        if followed is None or followed.broken is not None:
            return False
        run.last_id = followed.last_id or last_id
        return True

    def _read_redaction(self, operation: Operation) -> bool:
        run = self._some_run(operation, lambda run: run.start.workflow == "Redacts")
        return run is not None and _answered(self._calls.redaction(run, _edge(operation)))

    def _waited_for(self, operation: Operation) -> Run | None:
        """Most often a run that has not ended."""
        ended = operation.chances[2] < 0.2
        return self._some_run(operation, lambda run: not run.erased and (ended or not run.ended))

    def _wait_seconds(self, operation: Operation) -> int:
        seconds = choose(list(_WAITS), operation.chances[4])
        assert seconds is not None
        return seconds

    def _read_events(self, operation: Operation) -> bool:
        run = self._some_run(operation, lambda run: not run.erased)
        if run is None:
            return False
        edge = _edge(operation)
        # Now and then from the beginning: what was seen once must come again.
        again = operation.chances[2] < 0.3
        segment = choose([None, *run.seen], operation.chances[3])
        after = 0 if again or segment is None else run.seen[segment]
        answer = self._calls.events(run, segment, after, edge)
        if answer is None or not _answered(answer):
            return False
        if answer.status == 200:
            page = answer.json()
            for each in page["segments"]:
                run.seen.setdefault(each["segment_id"], 0)
            if page["segment_id"] is not None:
                run.seen[page["segment_id"]] = max(run.seen.get(page["segment_id"], 0), page["next_after_seq"])
        return True

    def _read_outputs(self, operation: Operation) -> bool:
        run = self._some_run(operation, lambda run: run.ended)
        if run is None:
            return False
        edge = _edge(operation)
        answer = self._calls.outputs(run, edge)
        if answer is None or not _answered(answer):
            return False
        if answer.status == 200 and (output := choose(answer.json()["items"], operation.chances[2])) is not None:
            return _answered(self._calls.content(run, output, edge))
        return True

    def _read_zip(self, operation: Operation) -> bool:
        run = self._some_run(operation, lambda run: run.ended)
        return run is not None and _answered(self._calls.zip(run, _edge(operation)))

    def _read_board(self, operation: Operation) -> bool:
        run = self._some_run(operation)
        what = "steps" if operation.chances[2] < 0.5 else "approvals"
        return run is not None and _answered(self._calls.board(run, what, _edge(operation)))

    def _list_runs(self, operation: Operation) -> bool:
        key = choose(self._known.usable_keys(), operation.chances[0])
        return key is not None and _answered(self._calls.list_runs(key, _edge(operation)))

    def _read_key(self, operation: Operation) -> bool:
        key = choose(self._known.usable_keys(), operation.chances[0])
        return key is not None and _answered(self._calls.me(key, _edge(operation)))

    def _decide(self, operation: Operation) -> bool:
        backend = _edge(operation)
        pending = self._calls.pending(backend)
        chosen = None if pending is None else choose(list(pending.items), operation.chances[0])
        if chosen is None:
            return pending is not None
        approve = operation.chances[2] < 0.8
        return self._calls.decide(chosen.approval.approval_id, chosen.run_id, approve=approve, backend=backend)

    def _cancel(self, operation: Operation) -> bool:
        run = self._some_run(operation, lambda run: not run.ended)
        return run is not None and _answered(self._calls.cancel(run, _edge(operation)))

    def _erase(self, operation: Operation) -> bool:
        edge = _edge(operation)
        if operation.chances[2] < 0.5:
            # What ended just now, perhaps without its worker knowing.
            for run in self._known.runs(lambda run: not run.ended and not run.key.revoked)[:_LOOKED_AT]:
                self._refresh(run, edge)
                if run.ended:
                    return self.erase(run, edge)
        known = self._some_run(operation, lambda run: run.ended and not run.erased)
        return known is not None and self.erase(known, edge)

    def erase(self, run: Run, edge: int) -> bool:
        # From the first call on the data may be gone, whatever is answered.
        run.erased = True
        return _answered(self._calls.erase(run, edge))

    def _use_revoked_key(self, operation: Operation) -> bool:
        key = choose(self._known.revoked_keys(), operation.chances[0], newest=3)
        return key is not None and _answered(self._calls.me(key, _edge(operation)))

    def _make_key(self, operation: Operation) -> bool:
        if len(self._known.usable_keys()) >= _MAX_KEYS:
            return False
        key = self._calls.make_key(new_key(f"operation {operation.number}"), _edge(operation))
        if key is None:
            return False
        # Until it works it is not what is being tried.
        if self._reaches_both(key):
            self._known.add_key(key)
        return True

    def _reaches_both(self, key: Key) -> bool:
        """Waits until both edges know credentials; an edge that is cut off learns of them later."""
        end = time.monotonic() + _KEY_SECONDS
        for edge in range(2):
            while (answer := self._calls.me(key, edge, new=True)) is None or answer.status != 200:
                if time.monotonic() > end:
                    return False
                time.sleep(0.3)
        return True

    def _rotate_key(self, operation: Operation) -> bool:
        # A call that is under way with the old secret would be refused after a second rotation.
        latest = time.monotonic() - _LONGEST_CALL_SECONDS
        keys = [key for key in self._known.usable_keys() if not key.rotating and key.rotated_at < latest]
        key = choose(keys, operation.chances[0])
        if key is None:
            return False
        # Whoever does not hear of its new secret keeps the old one, which the next rotation would end.
        key.rotating = True
        made = self._calls.rotate_key(key, _edge(operation))
        if made is None:
            return False
        new = Key(key.key_id, made.key_value, key.external_id)
        if self._reaches_both(new):
            key.bearer = new.bearer
            key.rotated_at = time.monotonic()
            key.rotating = False
        return True

    def _revoke_key(self, operation: Operation) -> bool:
        keys = self._known.usable_keys()
        # The first ones stay, so that there is always one to call with.
        key = choose(keys[_FEWEST_KEYS:], operation.chances[0])
        if key is None:
            return False
        # From the first call on it may be refused, whatever is answered.
        key.revoked = True
        return self._calls.revoke_key(key, _edge(operation))

    def _some_run(self, operation: Operation, meant: Callable[[Run], bool] = lambda _: True) -> Run | None:
        return choose(
            self._known.runs(lambda run: meant(run) and not run.key.revoked), operation.chances[0], newest=_MEANT
        )


def _start_of(key: Key, workflow: str, idempotency_key: str) -> Start:
    body: dict[str, Any] = {"input_text": f"text of {idempotency_key}", "client_reference": idempotency_key}
    if workflow in {"Reads", ASKED_READS}:
        body["parameters"] = {"documents": "s3://inbox/in/"}
    return Start(key, workflow, idempotency_key, body)


def _edge(operation: Operation) -> int:
    return int(operation.chances[5] * 2)


def _answered(answer: Answer | None) -> bool:
    """Whether the service said what it had to say: a refusal for the moment is no such answer."""
    return answer is not None and answer.status not in {502, 503}
