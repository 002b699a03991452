"""Answers of the fake service to each route."""

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import httpx

from workflow_api_client.settings import BASE
from workflow_api_client.testing.answers import Pieces, Refused, bytes_answer, json_answer, output_record, zip_of
from workflow_api_client.testing.checks import check_parameters, check_start, moment, page_bounds, statuses
from workflow_api_client.testing.fake_run import FakeRun
from workflow_api_client.testing.state import FakeRequest, State

KEY: Final = "ak_fake00000000.not-a-secret-at-all"
EXTERNAL_ID: Final = "ake_00000000000000000000000000000000"
BUNDLE_ONLY_BYTES: Final = 25_000_000

_COMMENT_SECONDS: Final = 15.0
_PAGE: Final = 20
_LONGEST_PAGE: Final = 100


class Call:
    """One call of the fake service."""

    def __init__(self, state: State, request: FakeRequest) -> None:
        self._state = state
        self._request = request

    def answer(self) -> httpx.Response:
        """Returns the answer.

        Raises:
            Refused: the call is refused.
        """
        method, path, headers = self._request.method, self._request.path, self._request.headers
        if path == "/health":
            return json_answer({"status": "ok", "deployment_id": "fake", "api_version": "2026-09-24"})
        routes = [(wanted, found, name) for wanted, pattern, name in _ROUTES if (found := re.fullmatch(pattern, path))]
        if not routes:
            raise Refused("not_found")
        fitting = [(found, name) for wanted, found, name in routes if wanted == method]
        if not fitting:
            raise Refused("method_not_allowed")
        if (headers.get("authorization"), headers.get("x-service-key-external-id")) != (f"Bearer {KEY}", EXTERNAL_ID):
            raise Refused("unauthorized", "The credentials are missing or not valid.")
        [(found, name)] = fitting
        handler: Callable[..., httpx.Response] = getattr(self, name)
        return handler(*map(unquote, found.groups()))

    def _me(self) -> httpx.Response:
        active = sum(not run.has_ended for run in self._state.runs.values())
        return json_answer(
            {
                "key_id": "ak_0123456789ab",
                "name": "fake",
                "deployment_id": "fake",
                "scopes": ["workflows:read", "runs:create", "runs:read", "outputs:read", "runs:delete"],
                "workflow_access": {"mode": "all_active", "workflow_ids": []},
                "expires_at": "2036-01-01T00:00:00.000+00:00",
                "rate_limit_rpm": 60,
                "daily_run_quota": 100,
                "quota_used_today": len(self._state.runs),
                "max_concurrent_runs": 10,
                "active_runs": active,
            }
        )

    def _list_workflows(self) -> httpx.Response:
        prefix = self._request.query.get("q", "").casefold()
        found = [each for each in self._state.workflows.values() if each["name"].casefold().startswith(prefix)]
        return self._page(sorted(found, key=lambda each: str(each["name"])))

    def _workflow(self, workflow_id: str) -> httpx.Response:
        return json_answer(self._found(workflow_id))

    def _list_parameters(self, workflow_id: str) -> httpx.Response:
        self._found(workflow_id)
        declared = self._state.parameters.get(workflow_id, [])
        return json_answer({"workflow_id": workflow_id, "version": 1, "parameters": declared})

    def _start(self, workflow_id: str) -> httpx.Response:
        body, key = self._request.body or {}, self._request.headers.get("idempotency-key", "")
        check_start(key, body)
        # Empty parameters and labels count as absent.
        wanted = json.dumps([workflow_id, {name: value for name, value in body.items() if value}], sort_keys=True)
        if key in self._state.keys:
            bound, run_id = self._state.keys[key]
            if bound != wanted:
                raise Refused("idempotency_conflict")
            return json_answer(self._state.runs[run_id].detail(), 200, {"Idempotency-Replayed": "true"})
        workflow = self._found(workflow_id)
        if (body.get("version") or 1) != 1:
            raise Refused("version_not_found")
        if workflow_id in self._state.parameters:
            check_parameters(self._state.parameters[workflow_id], body.get("parameters") or {})
        run_id = f"run_{next(self._state.numbers):026}"
        run = FakeRun(run_id, (workflow_id, workflow["name"]), body, self._state.clock)
        record = run.detail()
        run.plan(self._state.scripts[workflow_id])
        self._state.runs[run_id] = run
        self._state.keys[key] = (wanted, run_id)
        return json_answer(record, 201, {"Location": f"{BASE}/runs/{run_id}"})

    def _list_runs(self) -> httpx.Response:
        query = self._request.query
        page_bounds(query, _PAGE, _LONGEST_PAGE)
        wanted, after, before = statuses(query), moment(query, "created_after"), moment(query, "created_before")
        found = []
        for run in reversed(self._state.runs.values()):
            record = run.summary()
            created_at = datetime.fromisoformat(record["created_at"])
            if (
                (wanted is None or record["status"] in wanted)
                and all(query.get(name, record[name]) == record[name] for name in ("workflow_id", "client_reference"))
                and (after is None or created_at > after)
                and (before is None or created_at < before)
            ):
                found.append(record)
        return self._page(found)

    def _run(self, run_id: str) -> httpx.Response:
        run = self._run_of(run_id)
        known = self._request.headers.get("if-none-match") or _tag(run.detail())
        if not run.has_ended:
            self._hold(lambda: _tag(run.detail()) != known)
        record = run.detail()
        tag = _tag(record)
        if self._request.headers.get("if-none-match") == tag:
            return httpx.Response(304, headers={"ETag": tag})
        return json_answer(record, 200, {"ETag": tag})

    def _list_steps(self, run_id: str) -> httpx.Response:
        run = self._run_of(run_id)
        step: dict[str, Any] = {
            "step": "work",
            "name": "work",
            "kind": "agent",
            "status": run.status,
            "needs": [],
            "agent_id": "agent",
            "segment_id": None,
            "attempt": 1,
            "optional": False,
            "started_at": None,
            "finished_at": None,
            "duration_ms": None,
            "error": None,
        }
        return json_answer({"items": [step]})

    def _list_approvals(self, run_id: str) -> httpx.Response:
        return json_answer({"items": self._run_of(run_id).approvals})

    def _list_events(self, run_id: str) -> httpx.Response:
        run = self._run_of(run_id)
        if run.is_erased:
            raise Refused("not_found")
        if self._state.streams and "text/event-stream" in self._request.headers.get("accept", ""):
            pieces = self._stream(run, self._request.headers.get("last-event-id"))
            return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Pieces(self._cut(pieces)))
        asked = self._request.query.get("segment")
        segment = asked or _latest(run)
        if segment is not None and segment not in run.events:
            raise Refused("segment_not_found")
        after, limit = int(self._request.query.get("after_seq", "0")), int(self._request.query.get("limit", "200"))

        def new() -> list[dict[str, Any]]:
            return [event for event in run.events.get(segment or "", []) if event["seq"] > after]

        begun = len(run.segments)
        ended = any(each["segment_id"] == segment and each["ended_at"] for each in run.segments)
        if not run.has_ended and not (asked and ended):
            self._hold(lambda: bool(new()) or len(run.segments) > begun)
        if not asked and _latest(run) != segment:
            # `after_seq` belongs to the segment before.
            segment, limit, after = _latest(run), limit if after == 0 else 0, 0
        events = new()[:limit]
        return json_answer(
            {
                "run_id": run_id,
                "segment_id": segment,
                "events": events,
                "next_after_seq": events[-1]["seq"] if events else after,
                "segments": run.segments,
            }
        )

    def _list_outputs(self, run_id: str) -> httpx.Response:
        run, created_at = self._ended(run_id), self._state.clock.text()
        items = [output_record(run_id, path, content, created_at) for path, content in sorted(run.outputs.items())]
        total = sum(each["size_bytes"] for each in items)
        bundle = {"path": f"{BASE}/runs/{run_id}/outputs.zip"}
        return json_answer({"items": items, "total_bytes": total, "bundle": bundle})

    def _content(self, run_id: str, output_id: str) -> httpx.Response:
        content = self._ended(run_id).outputs.get(output_id.removeprefix("out_"))
        if content is None:
            raise Refused("output_not_found")
        if len(content) > BUNDLE_ONLY_BYTES:
            raise Refused("use_bundle", details={"bundle": f"{BASE}/runs/{run_id}/outputs.zip"})
        return bytes_answer(content, self._request.headers, self._cut)

    def _zip(self, run_id: str) -> httpx.Response:
        return bytes_answer(zip_of(self._ended(run_id).outputs), self._request.headers, self._cut)

    def _cancel(self, run_id: str) -> httpx.Response:
        run = self._run_of(run_id)
        if run.has_ended:
            raise Refused("already_terminal")
        asked_at = run.cancel()
        return json_answer({"run_id": run_id, "status": run.status, "cancel_requested_at": asked_at}, 202)

    def _erase(self, run_id: str) -> httpx.Response:
        run = self._ended(run_id)
        if run.is_erased:
            raise Refused("already_purged", details={"data_purged_at": run.detail()["data_purged_at"]})
        return json_answer({"run_id": run_id, "data_purged_at": run.erase()}, 202)

    def _redaction(self, run_id: str) -> httpx.Response:
        self._run_of(run_id)
        raise Refused("pii_redaction_not_applied")

    def _page(self, found: list[dict[str, Any]]) -> httpx.Response:
        limit, cursor = page_bounds(self._request.query, _PAGE, _LONGEST_PAGE), self._request.query.get("cursor", "0")
        if not cursor.isdecimal() or int(cursor) > len(found):
            raise Refused("invalid_cursor")
        begin = int(cursor)
        end = begin + limit
        return json_answer({"items": found[begin:end], "next_cursor": str(end) if end < len(found) else None})

    def _found(self, workflow_id: str) -> dict[str, Any]:
        if workflow_id not in self._state.workflows:
            raise Refused("workflow_not_found")
        return self._state.workflows[workflow_id]

    def _run_of(self, run_id: str) -> FakeRun:
        if run_id not in self._state.runs:
            raise Refused("run_not_found", "There is no such run within reach.")
        return self._state.runs[run_id]

    def _ended(self, run_id: str) -> FakeRun:
        run = self._run_of(run_id)
        if not run.has_ended:
            raise Refused("run_not_terminal", details={"status": run.status})
        return run

    def _hold(self, is_new: Callable[[], bool]) -> None:
        """Moves the clock until `is_new`, at most for the wait that the caller asked for."""
        end = self._state.clock.now() + (int(self._request.query.get("wait_seconds", "0")) if self._state.waits else 0)
        while not is_new() and self._state.clock.now() < end:
            self._step(end)

    def _step(self, end: float) -> None:
        dues = [run.next_due for run in self._state.runs.values() if run.next_due is not None]
        self._state.clock.sleep(min([*dues, end]) - self._state.clock.now())
        self._state.catch_up()

    def _stream(self, run: FakeRun, after: str | None) -> Iterator[bytes]:
        sent: set[str] = set()
        if after:
            segment_id, _, seq = after.rpartition(":")
            earlier = itertools.takewhile(lambda each: each["segment_id"] != segment_id, run.segments)
            sent |= {
                f"{each['segment_id']}:{event['seq']}" for each in earlier for event in run.events[each["segment_id"]]
            }
            sent |= {f"{segment_id}:{number}" for number in range(1, int(seq) + 1)}
        while True:
            for segment_id, events in run.events.items():
                for event in events:
                    place = f"{segment_id}:{event['seq']}"
                    if place not in sent:
                        sent.add(place)
                        yield f"id: {place}\ndata: {json.dumps(event)}\n\n".encode()
            if run.has_ended:
                yield b"event: end\ndata: {}\n\n"
                return
            yield b": still there\n\n"
            self._step(self._state.clock.now() + _COMMENT_SECONDS)

    def _cut(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        left, cleanly = self._state.cuts.pop(0) if self._state.cuts else (None, False)
        for piece in pieces:
            if left is None:
                yield piece
                continue
            yield piece[:left]
            left -= len(piece[:left])
            if left == 0:
                if cleanly:
                    return
                raise httpx.ReadError("broken off by the script")


def _latest(run: FakeRun) -> str | None:
    return str(run.segments[-1]["segment_id"]) if run.segments else None


def _tag(record: Mapping[str, Any]) -> str:
    return f'"{hashlib.sha256(json.dumps(record).encode()).hexdigest()}"'


_ROUTES: Final = (
    ("GET", "/me", "_me"),
    ("GET", "/workflows", "_list_workflows"),
    ("GET", "/workflows/([^/]+)", "_workflow"),
    ("GET", "/workflows/([^/]+)/parameters", "_list_parameters"),
    ("POST", "/workflows/([^/]+)/runs", "_start"),
    ("GET", "/runs", "_list_runs"),
    ("GET", "/runs/([^/]+)", "_run"),
    ("GET", "/runs/([^/]+)/steps", "_list_steps"),
    ("GET", "/runs/([^/]+)/approvals", "_list_approvals"),
    ("GET", "/runs/([^/]+)/events", "_list_events"),
    ("GET", "/runs/([^/]+)/outputs", "_list_outputs"),
    ("GET", "/runs/([^/]+)/outputs.zip", "_zip"),
    ("GET", "/runs/([^/]+)/outputs/([^/]+)/content", "_content"),
    ("GET", "/runs/([^/]+)/pii-redaction", "_redaction"),
    ("POST", "/runs/([^/]+)/cancel", "_cancel"),
    ("DELETE", "/runs/([^/]+)/data", "_erase"),
)
