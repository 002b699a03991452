"""Calls of the API and of its administration, each recorded in the journal with its answer."""

import hashlib
import http.client
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.faults.cluster import Cluster
from tests.faults.journal import NO_ANSWER, Journal, digest
from tests.faults.load_record import Key, Run, Start
from tests.faults.planted import holds_planted
from tests.faults.streams import SILENT_SECONDS, Followed, follow
from tests.support.admin import Admin
from tests.support.wire import BASE, Answer
from workflow_api.v1 import environments_pb2, keys_pb2, runs_pb2, schedules_pb2, workflows_pb2

_SECONDS: Final = 25
_ADMIN_SECONDS: Final = 10.0
# It resolves packages.
_APPLY_SECONDS: Final = 60.0
_OK: Final = 200

Said = Callable[[Answer], dict[str, Any]]


class Calls:
    """Sends what the load asks for; the answer is None where none came whole."""

    def __init__(self, cluster: Cluster, journal: Journal) -> None:
        self._cluster = cluster
        self._journal = journal

    def start(self, start: Start, edge: int, body: Mapping[str, Any] | None = None) -> Answer | None:
        """Sends a start; with another body than its own where one is given."""
        sent = start.body if body is None else body
        return self._call(
            "start",
            start.key,
            "POST",
            f"/workflows/{self._cluster.flows[start.workflow]}/runs",
            edge,
            lambda answer: {
                "run": answer.json()["run_id"],
                "replayed": answer.headers.get("Idempotency-Replayed") == "true",
                "key": answer.json()["key_id"],
                "reference": answer.json()["client_reference"],
            },
            headers={"Idempotency-Key": start.idempotency_key},
            body=sent,
            about={"idempotency_key": start.idempotency_key, "body": digest([start.workflow, sent])},
        )

    def run(self, run: Run, edge: int) -> Answer | None:
        return self._get("read_run", run, "", edge, _of_run)

    def events(self, run: Run, segment: str | None, after: int, edge: int) -> Answer | None:
        query = f"/events?after_seq={after}&limit=40" + (f"&segment={segment}" if segment else "")
        about = {"segment": segment, "after": after}
        return self._get("read_events", run, query, edge, _of_events, about)

    def wait_for_run(self, run: Run, seconds: int, edge: int) -> Answer | None:
        about = {"wait": seconds}
        return self._get("wait_for_run", run, f"?wait_seconds={seconds}", edge, _of_run, about)

    def wait_for_events(self, run: Run, segment: str | None, after: int, seconds: int, edge: int) -> Answer | None:
        query = f"/events?after_seq={after}&limit=40&wait_seconds={seconds}" + (
            f"&segment={segment}" if segment else ""
        )
        about = {"segment": segment, "after": after, "wait": seconds}
        return self._get("wait_for_events", run, query, edge, _of_events, about)

    def follow(self, run: Run, last_id: str | None, seconds: float, edge: int) -> Followed | None:
        """Reads the stream of a run's events for so long, after a message if one is given; None without an answer."""
        about = {"run": run.run_id, "key": run.key.key_id, "edge": edge, "last": last_id}
        number = self._journal.call("follow_events", **about)
        headers = {**run.key.headers, "Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        try:
            connection = http.client.HTTPConnection(*self._cluster.edge_address(edge), timeout=SILENT_SECONDS)
        except OSError as error:
            self._journal.answer(number, NO_ANSWER, type(error).__name__, {})
            return None
        with closing(connection):
            try:
                connection.request("GET", f"{BASE}/runs/{run.run_id}/events", headers=headers)
                response = connection.getresponse()
                if response.status != _OK:
                    answer = Answer(response.status, response.headers, response.read())
                    self._journal.answer(number, answer.status, answer.code or "no envelope", _refused(answer))
                    return None
            except (OSError, http.client.HTTPException) as error:
                self._journal.answer(number, NO_ANSWER, type(error).__name__, {})
                return None
            followed = follow(response, seconds)
        said = {"events": followed.events, "end": followed.end, "planted": followed.planted}
        # A stream that may not go on ends like this.
        over = followed.broken is None or run.erased or run.key.revoked
        self._journal.answer(number, _OK if over else NO_ANSWER, None if over else followed.broken, said)
        return followed

    def redaction(self, run: Run, edge: int) -> Answer | None:
        return self._get("read_redaction", run, "/pii-redaction", edge, lambda answer: {"manifest": answer.json()})

    def board(self, run: Run, what: str, edge: int) -> Answer | None:
        """Steps or approvals."""
        return self._get(f"read_{what}", run, f"/{what}", edge, lambda answer: {"items": len(answer.json()["items"])})

    def outputs(self, run: Run, edge: int) -> Answer | None:
        return self._get(
            "list_outputs",
            run,
            "/outputs",
            edge,
            lambda answer: {
                "outputs": [
                    [each["output_id"], each["path"], each["sha256"], each["size_bytes"]]
                    for each in answer.json()["items"]
                ]
            },
        )

    def content(self, run: Run, output: Mapping[str, Any], edge: int) -> Answer | None:
        return self._get(
            "read_content",
            run,
            f"/outputs/{output['output_id']}/content",
            edge,
            lambda answer: {"sha256": hashlib.sha256(answer.body).hexdigest(), "size": len(answer.body)},
            {"output": output["output_id"], "sha256": output["sha256"]},
        )

    def zip(self, run: Run, edge: int) -> Answer | None:
        return self._get("read_zip", run, "/outputs.zip", edge, _of_zip)

    def list_runs(self, key: Key, edge: int) -> Answer | None:
        return self._call(
            "list_runs", key, "GET", "/runs?limit=30", edge, lambda answer: {"runs": _ids(answer.json()["items"])}
        )

    def me(self, key: Key, edge: int, *, new: bool = False) -> Answer | None:
        """Reads a key; `new` where its credentials may not have reached the edge yet."""
        kind = "await_key" if new else "read_key"
        return self._call(kind, key, "GET", "/me", edge, lambda answer: {"key": answer.json()["key_id"]})

    def cancel(self, run: Run, edge: int) -> Answer | None:
        return self._call(
            "cancel",
            run.key,
            "POST",
            f"/runs/{run.run_id}/cancel",
            edge,
            lambda answer: {"status": answer.json()["status"]},
            about={"run": run.run_id},
        )

    def erase(self, run: Run, edge: int) -> Answer | None:
        return self._call(
            "erase",
            run.key,
            "DELETE",
            f"/runs/{run.run_id}/data",
            edge,
            lambda answer: {"purged_at": answer.json()["data_purged_at"]},
            about={"run": run.run_id},
        )

    def decide(self, approval_id: str, run_id: str, *, approve: bool, backend: int) -> bool:
        request = runs_pb2.DecideApprovalRequest(approval_id=approval_id, approve=approve)
        about = {"approval": approval_id, "run": run_id, "approve": approve}
        return self._administer("decide", backend, lambda admin: admin.runs.DecideApproval, request, about) is not None

    def resume(self, run: Run, name: str, *, again: bool, backend: int) -> Any:
        """Resumes a run under an idempotency key; returns the new one's summary, or None."""
        request = runs_pb2.ResumeRunRequest(run_id=run.run_id, idempotency_key=name, again=again)
        answer = self._administer(
            "resume",
            backend,
            lambda admin: admin.runs.ResumeRun,
            request,
            {"run": run.run_id, "key": run.key.key_id, "name": name, "again": again},
            lambda answer: {"run": answer.run.summary.run_id, "replayed": answer.replayed},
        )
        return None if answer is None else answer.run.summary

    def plan(self, workflow: str, reference: str, at: float, backend: int) -> str | None:
        """Plans a start at a time of day, in seconds; returns its id, or None."""
        start = runs_pb2.StartRunRequest(workflow_id=self._cluster.flows[workflow], client_reference=reference)
        request = schedules_pb2.PlanStartRequest(start=start)
        request.at.FromMilliseconds(round(at * 1000))
        answer = self._administer(
            "plan_start",
            backend,
            lambda admin: admin.schedules.PlanStart,
            request,
            {"reference": reference, "at": request.at.ToMilliseconds()},
            lambda planned: {"schedule": planned.schedule_id},
        )
        return None if answer is None else str(answer.schedule_id)

    def cancel_planned(self, schedule_id: str, backend: int) -> bool:
        request = schedules_pb2.CancelPlannedStartRequest(schedule_id=schedule_id)
        about = {"schedule": schedule_id}
        method: Callable[[Admin], Any] = lambda admin: admin.schedules.CancelPlannedStart  # noqa: E731
        return self._administer("cancel_planned", backend, method, request, about) is not None

    def trigger(self, workflow: str, schedule: str, name: str, backend: int) -> bool:
        """Triggers a schedule under an idempotency key."""
        request = schedules_pb2.TriggerScheduleRequest(workflow=workflow, name=schedule, idempotency_key=name)
        answer = self._administer(
            "trigger_schedule",
            backend,
            lambda admin: admin.schedules.TriggerSchedule,
            request,
            {"schedule": schedule, "name": name},
            lambda started: {"run": started.run.summary.run_id},
        )
        return answer is not None

    def pause_schedule(self, workflow: str, schedule: str, backend: int) -> bool:
        request = schedules_pb2.PauseScheduleRequest(workflow=workflow, name=schedule)
        about = {"schedule": schedule}
        method: Callable[[Admin], Any] = lambda admin: admin.schedules.PauseSchedule  # noqa: E731
        return self._administer("pause_schedule", backend, method, request, about) is not None

    def pending(self, backend: int) -> Any:
        """Approvals that wait, or None."""
        request = runs_pb2.ListPendingApprovalsRequest(page_size=1000)
        return self._administer("list_pending", backend, lambda admin: admin.runs.ListPendingApprovals, request, {})

    def make_key(self, request: keys_pb2.CreateKeyRequest, backend: int) -> Key | None:
        made = self._administer(
            "make_key",
            backend,
            lambda admin: admin.keys.CreateKey,
            request,
            {"name": request.name},
            lambda answer: {"key": answer.record.key.key_id},
        )
        return None if made is None else Key(made.record.key.key_id, made.key_value, made.external_id)

    def rotate_key(self, key: Key, backend: int) -> Any:
        """New credentials of a key, or None."""
        request = keys_pb2.RotateKeyRequest(key_id=key.key_id, overlap=Duration(seconds=86_400))
        return self._administer("rotate_key", backend, lambda admin: admin.keys.RotateKey, request, {"key": key.key_id})

    def revoke_key(self, key: Key, backend: int) -> bool:
        request = keys_pb2.RevokeKeyRequest(key_id=key.key_id)
        about = {"key": key.key_id}
        return self._administer("revoke_key", backend, lambda admin: admin.keys.RevokeKey, request, about) is not None

    def cancel_as_administrator(self, run_id: str, backend: int) -> None:
        """Cancels a run whose key may be revoked, or unknown."""
        request = runs_pb2.CancelRunRequest(run_id=run_id)
        self._administer("cancel_any", backend, lambda admin: admin.runs.CancelRun, request, {"run": run_id})

    def change_environment(self, name: str, requirement: str, backend: int) -> bool:
        """Applies an environment with this requirement; returns whether that was acknowledged."""
        content = json.dumps({"kind": "Environment", "name": name, "python": {"packages": [requirement]}})
        file = workflows_pb2.ManifestFile(name="environment.yaml", content=content)
        request = workflows_pb2.ApplyManifestsRequest(files=[file])
        applied = self._administer(
            "change_environment",
            backend,
            lambda admin: admin.workflows.ApplyManifests,
            request,
            {"environment": name, "requirement": requirement},
            seconds=_APPLY_SECONDS,
        )
        return applied is not None

    def environment(self, name: str, backend: int) -> Any:
        """What has become of the packages of an environment, or None."""
        return self._administer(
            "read_environment",
            backend,
            lambda admin: admin.environments.GetEnvironmentBuild,
            environments_pb2.GetEnvironmentBuildRequest(name=name),
            {"environment": name},
            lambda build: {
                "state": environments_pb2.EnvironmentBuildState.Name(build.state),
                "message": build.message,
                "locked": list(build.locked),
            },
        )

    def _get(
        self,
        kind: str,
        run: Run,
        rest: str,
        edge: int,
        said: Said,
        about: Mapping[str, Any] | None = None,
    ) -> Answer | None:
        return self._call(
            kind, run.key, "GET", f"/runs/{run.run_id}{rest}", edge, said, about={"run": run.run_id, **(about or {})}
        )

    def _call(
        self,
        kind: str,
        key: Key,
        method: str,
        path: str,
        edge: int,
        said: Said,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Answer | None:
        number = self._journal.call(kind, key=key.key_id, edge=edge, **(about or {}))
        try:
            answer = self._sent(edge, method, path, {**key.headers, **(headers or {})}, body)
        except (OSError, http.client.HTTPException) as error:
            self._journal.answer(number, NO_ANSWER, type(error).__name__, {})
            return None
        code = answer.code
        if answer.status < 300:
            try:
                planted = {"planted": True} if holds_planted(answer.body) else {}
                self._journal.answer(number, answer.status, None, {**said(answer), **planted})
            except (ValueError, LookupError, zipfile.BadZipFile) as error:
                self._journal.answer(number, answer.status, f"not understood: {error!r}", {})
        else:
            self._journal.answer(number, answer.status, code or "no envelope", _refused(answer))
        return answer

    def _sent(
        self, edge: int, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> Answer:
        connection = http.client.HTTPConnection(*self._cluster.edge_address(edge), timeout=_SECONDS)
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, BASE + path, content, dict(headers))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def _administer(
        self,
        kind: str,
        backend: int,
        method: Callable[[Admin], Any],
        request: Any,
        about: Mapping[str, Any],
        said: Callable[[Any], dict[str, Any]] = lambda _: {},
        seconds: float = _ADMIN_SECONDS,
    ) -> Any:
        number = self._journal.call(kind, **about)
        try:
            answer = method(self._cluster.admins[backend])(request, timeout=seconds)
        except grpc.RpcError as error:
            self._journal.answer(number, *_refusal(error), {"problems": _problems(error)})
            return None
        self._journal.answer(number, _OK, None, said(answer))
        return answer


def _refusal(error: Any) -> tuple[int, str]:
    """An administrator's refusal as a status and a code of the API; no answer where the backend gave none."""
    status = rpc_status.from_call(error)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            code = info.reason.lower()
            return {"runtime_unreachable": 502, "runtime_error": 502, "internal": 500}.get(code, 400), code
    unanswered = error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
    return NO_ANSWER if unanswered else 500, error.code().name


def _problems(error: Any) -> list[str]:
    """Why each field was refused."""
    status = rpc_status.from_call(error)
    found = error_details_pb2.BadRequest()
    details = status.details if status is not None else ()
    return [each.description for detail in details if detail.Unpack(found) for each in found.field_violations]


def _refused(answer: Answer) -> dict[str, Any]:
    details = {
        "retry_after": answer.headers.get("Retry-After"),
        "body": None if answer.code else repr(answer.body[:99]),
    }
    if answer.code in {"internal", "runtime_error"}:
        details["request_id"] = answer.headers.get("X-Request-Id")
    if answer.code in {"already_purged", "deployment_updating", "workflow_not_ready"}:
        details |= answer.error["details"]
    return details


def _of_run(answer: Answer) -> dict[str, Any]:
    run = answer.json()
    return {
        "status": run["status"],
        "finished_at": run["finished_at"],
        "error": run.get("error", {}).get("code"),
        "purged_at": run["data_purged_at"],
        "outputs": run["counts"]["outputs"],
    }


def _of_events(answer: Answer) -> dict[str, Any]:
    page = answer.json()
    return {
        "segment": page["segment_id"],
        "events": [[event["seq"], event["type"], digest(event)] for event in page["events"]],
        "next": page["next_after_seq"],
        "segments": [
            [each["segment_id"], each["ordinal"], each["last_seq"], each["ended_at"]] for each in page["segments"]
        ],
    }


def _of_zip(answer: Answer) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        return {"files": {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}}


def _ids(items: list[dict[str, Any]]) -> list[str]:
    return [item["run_id"] for item in items]
