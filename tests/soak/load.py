"""A steady mixed load: callers, administrators, a person at the console, and connections that are held."""

import http.client
import json
import random
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.protobuf.duration_pb2 import Duration

from tests.soak.stage import Stage
from tests.support.browsing import Browser
from tests.support.client import Caller, with_query
from tests.support.poll import until
from tests.support.wire import BASE, Address, Answer
from workflow_api.v1 import keys_pb2, runs_pb2, uploads_pb2, users_pb2, webhooks_pb2

_THREADS: Final = 8
_HELD_CONNECTIONS: Final = 4
_CALL_SECONDS: Final = 60
_KNOWN_RUNS: Final = 400
_KEYS: Final = 4
_TEXT: Final = "Ms Jane Doe writes from jane.doe@example.org about order {number}."
_WAIT_SECONDS: Final = 5

_WORKFLOWS: Final[Mapping[str, int]] = {"Quick": 50, "Files": 20, "Asked": 12, "Failing": 8, "Redacted": 6, "Slow": 4}
_PAGES: Final = ("/", "/runs", "/keys", "/approvals", "/workflows", "/audit", "/deployment/health")

_ALLOWED: Final[Mapping[str, frozenset[int]]] = {
    "start": frozenset({201, 429}),
    # Its key may be full again, and upkeep may have made a short day pass since.
    "start again": frozenset({200, 201, 409, 429}),
    "cancel": frozenset({202, 409}),
    "erase": frozenset({202, 409}),
    "read if changed": frozenset({200, 304}),
    "read with a revoked key": frozenset({200, 401}),
}
_DECIDED: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
)
_OF_RUNS: Final = frozenset({200, 404})
"""A run's data may have been erased."""


@dataclass
class _Run:
    run_id: str
    caller: Caller
    workflow: str
    idempotency_key: str
    body: Mapping[str, object]
    etag: str = ""


@dataclass
class Done:
    """What was done so far, and the answers that nobody should get."""

    counts: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)


class Load:
    """Carries out operations at a rate until it is stopped; `per_second` counts starts, calls and administration."""

    def __init__(self, stage: Stage, flows: Mapping[str, str], hook: str) -> None:
        self._stage = stage
        self._flows = flows
        self._lock = threading.Lock()
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._runs: deque[_Run] = deque(maxlen=_KNOWN_RUNS)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failed: list[BaseException] = []
        self._due = 0.0
        self.done = Done()
        self._callers = [self._new_caller(f"steady {number}") for number in range(_KEYS)]
        for caller in self._callers:
            request = webhooks_pb2.CreateWebhookRequest(key_id=caller.key_id, url=hook)
            stage.admin.webhooks.CreateWebhook(request, timeout=_CALL_SECONDS)
        self._browser = self._signed_in(stage.console)
        # 20 of 502 start a run: a day has 20,000 of them and 482,000 reads and changes.
        self._operations: dict[Callable[[random.Random], None], int] = {
            self._start: 20,
            self._start_again: 4,
            self._read: 180,
            self._read_if_changed: 100,
            self._read_events: 70,
            self._read_outputs: 40,
            self._read_zip: 5,
            self._read_lists: 60,
            self._page: 10,
            self._decide: 6,
            self._cancel: 1,
            self._erase: 4,
            self._upload: 1,
            self._turn_keys: 1,
        }

    def start(self, per_second: float) -> None:
        """Begins; calls wait for their time, so that a slow service gets fewer."""
        self._due = time.monotonic()
        works = [lambda number=number: self._work(number, 1 / per_second) for number in range(_THREADS)]
        works += [lambda number=number: self._hold(number) for number in range(_HELD_CONNECTIONS)]
        for work in works:
            thread = threading.Thread(target=self._noted, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Waits for the calls under way.

        Raises:
            BaseException: whatever ended a thread of the load.
        """
        self._ended.set()
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()
        if self._failed:
            raise self._failed[0]

    def end_runs(self) -> None:
        """Cancels what has not ended, as far as its key is known, and waits until nothing is under way."""
        until(self._none_left, "every run to end", seconds=300, every=1.0)

    def _none_left(self) -> bool:
        for caller in self._callers:
            caller.cancel_active()
        return not self._stage.database.rows(
            "SELECT 1 FROM runs WHERE status IN ('queued', 'running', 'waiting_for_approval') LIMIT 1"
        )

    def _noted(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the load is stopped
            self._failed.append(error)

    def _work(self, number: int, every: float) -> None:
        chance = random.Random(number)
        kinds, weights = list(self._operations), list(self._operations.values())
        while not self._ended.is_set():
            with self._lock:
                self._due = due = max(self._due + every, time.monotonic() - 1)
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            (operation,) = chance.choices(kinds, weights)
            operation(chance)

    def _hold(self, number: int) -> None:
        """Keeps a connection busy: waits for a run's change, or reads its events as they come."""
        chance = random.Random(1000 + number)
        while not self._ended.wait(0.2):
            run = self._some(chance)
            if run is None:
                continue
            if number % 2:
                path = with_query(f"/runs/{run.run_id}", wait_seconds=_WAIT_SECONDS)
                self._call("wait", run.caller, "GET", path, _OF_RUNS)
            else:
                self._stream(run)

    def _stream(self, run: _Run) -> None:
        connection = http.client.HTTPConnection(*run.caller.address, timeout=_CALL_SECONDS)
        with closing(connection):
            headers = {**run.caller.credentials, "Accept": "text/event-stream"}
            connection.request("GET", f"{BASE}/runs/{run.run_id}/events", headers=headers)
            response = connection.getresponse()
            self._count("stream", response.status, _OF_RUNS, "")
            end = time.monotonic() + _WAIT_SECONDS
            # Now and then it is left before its end, as by a caller who closes the page.
            while time.monotonic() < end and response.readline():
                pass

    def _some(self, chance: random.Random) -> _Run | None:
        with self._lock:
            return chance.choice(self._runs) if self._runs else None

    def _start(self, chance: random.Random) -> None:
        (workflow,) = chance.choices(list(_WORKFLOWS), list(_WORKFLOWS.values()))
        name = uuid.uuid4().hex
        body = {
            "input_text": _TEXT.format(number=chance.randrange(10**6)),
            "client_reference": name[:8],
            "labels": {"team": f"t{chance.randrange(5)}"},
        }
        self._send_start("start", _Run("", chance.choice(self._callers), workflow, name, body))

    def _start_again(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is not None:
            self._send_start("start again", run)

    def _send_start(self, kind: str, run: _Run) -> None:
        headers = {"Idempotency-Key": run.idempotency_key}
        path = f"/workflows/{self._flows[run.workflow]}/runs"
        answer = self._call(kind, run.caller, "POST", path, _ALLOWED[kind], headers, run.body)
        if answer.status == 201:
            with self._lock:
                self.done.counts["runs started"] += 1
                self._runs.append(
                    _Run(answer.json()["run_id"], run.caller, run.workflow, run.idempotency_key, run.body)
                )

    def _read(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is not None:
            self._call("read", run.caller, "GET", f"/runs/{run.run_id}", frozenset({200}))

    def _read_if_changed(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is not None:
            headers = {"If-None-Match": run.etag} if run.etag else {}
            allowed = _ALLOWED["read if changed"]
            answer = self._call("read if changed", run.caller, "GET", f"/runs/{run.run_id}", allowed, headers)
            run.etag = answer.headers.get("ETag", "")

    def _read_events(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is not None:
            what = chance.choice(("events", "steps", "approvals"))
            self._call(f"read {what}", run.caller, "GET", f"/runs/{run.run_id}/{what}", _OF_RUNS)

    def _read_outputs(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is None:
            return
        # A run that is under way has outputs that nobody may read yet.
        allowed = frozenset({200, 404, 409})
        answer = self._call("list outputs", run.caller, "GET", f"/runs/{run.run_id}/outputs", allowed)
        items = answer.json()["items"] if answer.status == 200 else []
        if items:
            output = chance.choice(items)["output_id"]
            path = f"/runs/{run.run_id}/outputs/{output}/content"
            self._call("read an output", run.caller, "GET", path, allowed)

    def _read_zip(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is not None:
            path = f"/runs/{run.run_id}/outputs.zip"
            self._call("read outputs as zip", run.caller, "GET", path, frozenset({200, 404, 409}))

    def _read_lists(self, chance: random.Random) -> None:
        path = chance.choice(("/me", "/workflows", "/runs?limit=20", "/runs?status=completed&limit=20", "/health"))
        self._call("read lists", chance.choice(self._callers), "GET", path, frozenset({200}))

    def _cancel(self, chance: random.Random) -> None:
        run = self._some(chance)
        with self._lock:
            slow = [each for each in list(self._runs)[-30:] if each.workflow in {"Slow", "Asked"}]
        run = slow[-1] if slow else run
        if run is not None:
            self._call("cancel", run.caller, "POST", f"/runs/{run.run_id}/cancel", _ALLOWED["cancel"])

    def _erase(self, chance: random.Random) -> None:
        if (run := self._some(chance)) is not None:
            self._call("erase", run.caller, "DELETE", f"/runs/{run.run_id}/data", _ALLOWED["erase"])

    def _decide(self, chance: random.Random) -> None:
        request = runs_pb2.ListPendingApprovalsRequest(page_size=50)
        for each in self._stage.admin.runs.ListPendingApprovals(request, timeout=_CALL_SECONDS).items[:2]:
            approve = chance.random() < 0.8
            decision = runs_pb2.DecideApprovalRequest(approval_id=each.approval.approval_id, approve=approve)
            try:
                self._stage.admin.runs.DecideApproval(decision, timeout=_CALL_SECONDS)
            except grpc.RpcError as error:
                # Another thread, or a cancellation, was first.
                self._count_refusal("decide", error, *_DECIDED)
            else:
                self.done.counts["decide"] += 1

    def _upload(self, chance: random.Random) -> None:
        """Stages a file as the console does, and removes it again."""
        uploads = self._stage.admin.uploads
        upload_id = uploads.BeginUpload(uploads_pb2.BeginUploadRequest(), timeout=_CALL_SECONDS).upload_id
        uploads.AppendToUpload(
            uploads_pb2.AppendToUploadRequest(
                upload_id=upload_id, number=1, parameter="uploads", name="a.txt", data=chance.randbytes(50_000)
            ),
            timeout=_CALL_SECONDS,
        )
        finish = uploads_pb2.FinishUploadedFileRequest(upload_id=upload_id, number=1)
        uploads.FinishUploadedFile(finish, timeout=_CALL_SECONDS)
        remove = uploads_pb2.RemoveUploadedFileRequest(upload_id=upload_id, number=1)
        uploads.RemoveUploadedFile(remove, timeout=_CALL_SECONDS)
        self.done.counts["uploads"] += 1

    def _turn_keys(self, chance: random.Random) -> None:
        """Creates a key, uses it, rotates and revokes it."""
        caller = self._new_caller("brief")
        keys = self._stage.admin.keys
        keys.RotateKey(keys_pb2.RotateKeyRequest(key_id=caller.key_id, overlap=Duration(seconds=3600)))
        keys.RevokeKey(keys_pb2.RevokeKeyRequest(key_id=caller.key_id))
        self._call("read with a revoked key", caller, "GET", "/me", _ALLOWED["read with a revoked key"])

    def _new_caller(self, name: str) -> Caller:
        made = self._stage.admin.create_key(name=name)
        caller = Caller(self._stage.address, made.key_id, made.key, made.external_id)
        until(lambda: caller.get("/me").status == 200, "the edge to know a key", every=0.2)
        with self._lock:
            self.done.counts["keys created"] += 1
        return caller

    def _signed_in(self, console: Address) -> Browser:
        browser = Browser(console)
        name = "soak"
        password = self._stage.admin.add_user(name, users_pb2.ROLE_ADMINISTRATOR)
        browser.sign_in(name, password)
        form = browser.get("/password")
        new = uuid.uuid4().hex
        browser.post("/password", form.token, password=password, new_password=new, again=new)
        return browser

    def _page(self, chance: random.Random) -> None:
        path = chance.choice(_PAGES)
        seen = self._browser.get(path)
        self._count(f"console page {path}", seen.status, frozenset({200}), "")

    def _call(
        self,
        kind: str,
        caller: Caller,
        method: str,
        path: str,
        allowed: frozenset[int],
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Answer:
        """Calls on the connection of this thread."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(*caller.address, timeout=_CALL_SECONDS)
            self._local.connection = connection
            self._connections.append(connection)
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, BASE + path, content, {**caller.credentials, **(headers or {})})
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        self._count(kind, answer.status, allowed, answer.code or "")
        return answer

    def _count(self, kind: str, status: int, allowed: frozenset[int], code: str) -> None:
        with self._lock:
            self.done.counts[kind] += 1
            if status not in allowed:
                self.done.unexpected[f"{kind}: {status} {code}"] += 1

    def _count_refusal(self, kind: str, error: Any, *allowed: grpc.StatusCode) -> None:
        with self._lock:
            self.done.counts[kind] += 1
            if error.code() not in allowed:
                self.done.unexpected[f"{kind}: {error.code()} {error.details()}"] += 1
