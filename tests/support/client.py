"""A caller of the API: one key's credentials and the calls it makes."""

import http.client
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.support.planted import plant, plant_within
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from tests.support.wire import BASE, Address, Answer

TERMINAL = ("completed", "failed", "cancelled")
ACTIVE = ("queued", "running", "waiting_for_approval")


def call(
    address: Address, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Answer:
    """Makes one call of an absolute path on a new connection."""
    connection = http.client.HTTPConnection(*address, timeout=120)
    try:
        connection.request(method, path, body=body, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def with_query(path: str, **parameters: object) -> str:
    return f"{path}?{urlencode(parameters)}"


@dataclass(frozen=True)
class Caller:
    """Caller of the API with the credentials of one key."""

    address: Address
    key_id: str
    key: str
    external_id: str

    def __post_init__(self) -> None:
        plant(self.key.partition(".")[2], self.external_id)

    @property
    def credentials(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", "X-Service-Key-External-Id": self.external_id}

    @property
    def credential_headers(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.credentials.items())

    def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        json_body: object = None,
        body: bytes | None = None,
    ) -> Answer:
        if json_body is not None:
            body = json.dumps(json_body).encode()
        return call(self.address, method, BASE + path, {**self.credentials, **(headers or {})}, body)

    def get(self, path: str, *, headers: Mapping[str, str] | None = None, **query: Any) -> Answer:
        return self.call("GET", with_query(path, **query) if query else path, headers=headers)

    def post(self, path: str, json_body: object = None) -> Answer:
        return self.call("POST", path, json_body=json_body)

    def delete(self, path: str, json_body: object = None) -> Answer:
        return self.call("DELETE", path, json_body=json_body)

    def start(self, workflow_id: str, idempotency_key: str | None = None, **fields: Any) -> Answer:
        """Starts a run; without an idempotency key, under a fresh one."""
        plant_within(fields)
        return self.call(
            "POST",
            f"/workflows/{workflow_id}/runs",
            headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
            json_body=fields,
        )

    def started(self, workflow_id: str, **fields: Any) -> str:
        """Starts a run and returns its id."""
        answer = self.start(workflow_id, **fields)
        assert answer.status == 201, answer
        run_id: str = answer.json()["run_id"]
        return run_id

    def run(self, run_id: str) -> dict[str, Any]:
        answer = self.get(f"/runs/{run_id}")
        assert answer.status == 200, answer
        record: dict[str, Any] = answer.json()
        return record

    def wait(self, run_id: str, *statuses: str, seconds: float = LONGEST_WAIT_SECONDS) -> dict[str, Any]:
        """Returns the run once it has one of the statuses, by default a terminal one."""
        wanted = statuses or TERMINAL

        def reached() -> dict[str, Any] | None:
            record = self.run(run_id)
            assert record["status"] in wanted or record["status"] not in TERMINAL, record
            return record if record["status"] in wanted else None

        found = until(reached, f"{wanted} of {run_id}", seconds=seconds)
        assert found is not None
        return found

    def finished(self, workflow_id: str, **fields: Any) -> dict[str, Any]:
        """Starts a run and returns it once it has ended."""
        return self.wait(self.started(workflow_id, **fields))

    def events(self, run_id: str, **query: Any) -> dict[str, Any]:
        answer = self.get(f"/runs/{run_id}/events", **query)
        assert answer.status == 200, answer
        page: dict[str, Any] = answer.json()
        return page

    def wait_for_event(self, run_id: str, kind: str) -> None:
        """Returns once the latest segment holds an event of the type; fails where the run ends without one."""

        def seen() -> bool:
            record = self.run(run_id)
            events = self.events(run_id, limit=500)["events"]
            held = any(event["type"] == kind for event in events)
            assert held or record["status"] not in TERMINAL, (record, events)
            return held

        until(seen, f"event {kind} of {run_id}")

    def parked(self, workflow_id: str, **fields: Any) -> dict[str, Any]:
        """Starts a run and returns it once it waits for an approval."""
        return self.wait(self.started(workflow_id, **fields), "waiting_for_approval")

    def outputs(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Returns the outputs of a finished run by path."""
        answer = self.get(f"/runs/{run_id}/outputs")
        assert answer.status == 200, answer
        return {output["path"]: output for output in answer.json()["items"]}

    def cancel_active(self) -> None:
        """Cancels every active run of the key."""
        page = self.get("/runs", status=",".join(ACTIVE), limit=100)
        for run in page.json()["items"] if page.status == 200 else []:
            self.post(f"/runs/{run['run_id']}/cancel")
