"""Traces of started services as a collector receives them. (docs/traces.md)"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.browsing import Browser
from tests.support.client import Caller
from tests.support.deployment import Deployment
from tests.support.otlp_receiver import CLIENT, SERVER, Collector, ReceivedSpan, collecting
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.scrape import LISTEN, scrape
from tests.support.service import Service
from tests.support.webhook_receiver import receiving
from tests.support.wire import BASE
from workflow_api.v1 import users_pb2, webhooks_pb2

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
STATE = "vendor=opaque"
SECRET_TEXT = "text-that-no-span-may-hold"

WORKFLOWS = """
kind: Agent
name: traced
type: python
code: |
  import os

  def run(context):
      (context.outputs / "note.txt").write_text("note")
      return {"given": context.traceparent, "variable": os.environ.get("TRACEPARENT")}
---
kind: Workflow
name: Traced
status: active
steps:
  - {step: before, agent: traced, environment: standard}
  - {step: review, approval: {title: Go on?}, needs: [before]}
  - {step: after, agent: traced, environment: standard, needs: [review]}
result: {step: after}
"""


DOCUMENTED = set(
    re.findall(
        r"`([a-z_]+(?:\.[a-z_]+)+)`", Path("docs/traces.md").read_text().split("## Spans")[1].split("## Cost")[0]
    )
)


@contextmanager
def documented_spans() -> Iterator[Collector]:
    """A collector; every attribute of the spans that it received is in docs/traces.md."""
    with collecting() as collector:
        yield collector
        assert {name for span in collector.spans for name in span.attributes} - DOCUMENTED == set()


@dataclass
class TracedService:
    service: Service
    collector: Collector
    caller: Caller
    workflow_id: str


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedService]:
    with documented_spans() as collector:
        variables = LISTEN | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "runs-of-finance",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "WORKFLOW_API_WEBHOOKS_PRIVATE_NETWORKS": "127.0.0.0/8",
        }
        folder = tmp_path_factory.mktemp("traces")
        service = Service(folder, "--console", "127.0.0.1:0", variables=variables)
        service.start()
        try:
            service.admin.apply_test_workflows()
            workflow_id = service.admin.apply(WORKFLOWS)["Traced"]
            yield TracedService(service, collector, service.new_caller(), workflow_id)
        finally:
            service.stop()


def ancestors(span: ReceivedSpan, spans: list[ReceivedSpan]) -> list[str]:
    """Names of the spans that it is below, the nearest first; the last is the id of one that was not received."""
    by_id = {each.span_id: each for each in spans}
    names = []
    while (above := by_id.get(span.parent_id)) is not None:
        names.append(above.name)
        span = above
    return [*names, span.parent_id]


def test_a_run_with_its_approval_is_one_trace_with_the_callers_call(traced: TracedService) -> None:
    caller, collector = traced.caller, traced.collector
    route = f"{BASE}/workflows/{{workflow_id}}/runs"
    with receiving() as receiver:
        traced.service.admin.webhooks.CreateWebhook(
            webhooks_pb2.CreateWebhookRequest(key_id=caller.key_id, url=receiver.url)
        )
        body = {"input_text": SECRET_TEXT, "labels": {"kind": SECRET_TEXT}}
        path = f"/workflows/{traced.workflow_id}/runs"
        headers = {"traceparent": CALLER, "tracestate": STATE, "Idempotency-Key": "traced-1", "X-Request-Id": "req-1"}
        answer = caller.call("POST", path, headers=headers, json_body=body)
        assert answer.status == 201, answer
        run_id = answer.json()["run_id"]
        caller.wait(run_id, "waiting_for_approval")
        [approval] = caller.get(f"/runs/{run_id}/approvals").json()["items"]
        traced.service.admin.decide(approval["approval_id"], approve=True)
        run = caller.wait(run_id)
        collector.wait_for(TRACE, "segment", "segment", "webhook")
    assert run["status"] == "completed", run
    assert traced.service.databases_holding(STATE)
    assert caller.delete(f"/runs/{run_id}/data").status == 202
    until(lambda: not traced.service.databases_holding(STATE), "the erasure")
    spans = collector.trace(TRACE)
    assert {span.service for span in spans} == {"runs-of-finance"}

    [request] = [span for span in spans if span.name == f"POST {route}"]
    assert (request.parent_id, request.span.kind) == ("b7ad6b7169203331", SERVER)
    assert request.span.trace_state == STATE
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": route,
        "http.response.status_code": 201,
        "workflow_api.request_id": "req-1",
        "workflow_api.key_id": caller.key_id,
    }
    [started] = [span for span in spans if span.name == "workflow_api.v1.RunsService/StartRun"]
    assert started.parent_id == request.span_id
    assert started.attributes["rpc.response.status_code"] == "OK"
    writes = [span for span in spans if "INSERT runs" in span.attributes.get("db.query.summary", "")]
    assert [ancestors(span, spans)[:2] for span in writes] == [[started.name, request.name]]

    first, second = sorted(collector.named("segment", TRACE), key=lambda span: span.span.start_time_unix_nano)
    for ordinal, segment in ((1, first), (2, second)):
        assert segment.parent_id == started.span_id
        assert segment.attributes["workflow_api.run_id"] == run_id
        assert segment.attributes["workflow_api.segment.ordinal"] == ordinal
    assert len(collector.named("segment queued", TRACE)) == 2
    steps = {span.attributes["workflow_api.step"]: span for span in spans if span.name == "step"}
    assert {name: span.parent_id for name, span in steps.items()} == {"before": first.span_id, "after": second.span_id}
    assert run["result"] == {"given": steps["after"].traceparent, "variable": steps["after"].traceparent}
    puts = [span for span in spans if span.name == "objects put"]
    assert ["step", "segment", started.name] in [ancestors(span, spans)[:3] for span in puts]
    for delivery in collector.named("webhook", TRACE):
        assert delivery.parent_id == started.span_id
    assert "tracestate" not in receiver.received[0].headers
    assert receiver.received[0].headers["traceparent"] in {
        span.traceparent for span in collector.named("webhook", TRACE)
    }
    # The decision is a person's call, with a trace of its own.
    [decided] = [span for span in collector.spans if span.name == "workflow_api.v1.RunsService/DecideApproval"]
    assert decided.trace_id != TRACE
    # Content and credentials are in no span, ids in no name.
    said = collector.texts()
    assert [text for text in (SECRET_TEXT, caller.key, caller.external_id, "Go on?") if text in said] == []
    names = {span.name for span in collector.spans}
    assert [name for name in names if re.search("(run|seg|wf|ak|apr)_[0-9a-z]{12}", name)] == []


def test_a_page_of_the_console_is_a_trace_with_the_calls_that_it_makes(traced: TracedService) -> None:
    collector = traced.collector
    port = urlsplit(traced.service.ready["console"]).port
    assert port is not None
    browser = Browser(("127.0.0.1", port))
    password = traced.service.admin.add_user("ann", users_pb2.ROLE_OPERATOR)
    token = browser.get("/sign-in").token
    asked = {"X-Request-Id": "form-1", "traceparent": CALLER}
    assert browser.post("/sign-in", token, headers=asked, name="ann", password=password).location == "/password"
    assert browser.get("/runs/run_asked", X_Request_Id="page-1").status == 303
    browser.get("/nowhere/asked", X_Request_Id="page-2")

    def requests() -> dict[str, ReceivedSpan]:
        found = [span for span in tuple(collector.spans) if "http.request.method" in span.attributes]
        return {span.attributes["workflow_api.request_id"]: span for span in found}

    until(lambda: {"form-1", "page-1", "page-2"} <= set(requests()), "the spans of the console")
    form, page, unknown = (requests()[name] for name in ("form-1", "page-1", "page-2"))
    assert (form.name, form.span.kind, form.parent_id, form.part) == ("POST /sign-in", SERVER, "", "serve")
    assert form.trace_id != TRACE
    assert form.attributes == {
        "http.request.method": "POST",
        "http.route": "/sign-in",
        "http.response.status_code": 303,
        "workflow_api.request_id": "form-1",
    }
    calls = [span for span in collector.trace(form.trace_id) if span.name.startswith("workflow_api.v1.")]
    assert "workflow_api.v1.SessionsService/SignIn" in {span.name for span in calls}
    assert {span.parent_id for span in calls} == {form.span_id}
    assert (page.name, page.attributes["http.response.status_code"]) == ("GET /runs/{run_id}", 303)
    assert (unknown.name, unknown.attributes["http.response.status_code"]) == ("GET", 404)
    assert "http.route" not in unknown.attributes
    assert [text for text in ("/nowhere", "run_asked", password) if text in collector.texts()] == []


def test_a_trace_that_is_malformed_or_not_sampled_is_not_continued(traced: TracedService) -> None:
    collector = traced.collector
    unsampled = "1af7651916cd43dd8448eb211c80319c"

    def refused(request_id: str, traceparent: str) -> None:
        headers = {"X-Request-Id": request_id, "traceparent": traceparent}
        assert traced.caller.call("GET", "/runs/run_none", headers=headers).code == "run_not_found"

    refused("bad", "00-zzz")
    refused("unsampled", f"00-{unsampled}-b7ad6b7169203331-00")
    refused("last", CALLER)

    def of(request_id: str) -> list[ReceivedSpan]:
        return [
            span
            for span in collector.spans
            if span.attributes.get("workflow_api.request_id") == request_id and span.name.startswith("GET ")
        ]

    [last] = until(lambda: of("last"), "the last request")
    assert (last.attributes["http.response.status_code"], last.trace_id) == (404, TRACE)
    assert last.attributes["workflow_api.error_code"] == "run_not_found"
    [bad] = of("bad")
    assert bad.parent_id == ""
    assert of("unsampled") == []
    assert collector.trace(unsampled) == []


def test_a_collector_that_fails_costs_the_service_nothing_but_spans(tmp_path: Path) -> None:
    with documented_spans() as collector:
        collector.status = 400
        variables = LISTEN | {
            "WORKFLOW_API_TRACES_ENDPOINT": collector.url,
            "WORKFLOW_API_EDGE_TRACEPARENT": "link",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        service = Service(tmp_path, variables=variables)
        service.start()
        caller = service.new_caller()
        until(
            lambda: scrape(service.ready["metrics"]).value("trace_spans_total", outcome="failed") > 0, "a failed export"
        )
        collector.status = 200
        assert caller.call("GET", "/me", headers={"traceparent": CALLER, "X-Request-Id": "linked"}).status == 200
        # What waits is exported at the end.
        service.stop()
    [request] = [span for span in collector.spans if span.attributes.get("workflow_api.request_id") == "linked"][:1]
    assert request.trace_id != TRACE
    [server] = [span for span in collector.trace(request.trace_id) if span.name == f"GET {BASE}/me"]
    assert [link.trace_id.hex() for link in server.span.links] == [TRACE]


def reads_at_backend(collector: Collector, trace_id: str) -> list[ReceivedSpan]:
    """The backend's spans of reads of a run that have come."""
    return [span for span in collector.trace(trace_id) if span.name.endswith("GetRun") and span.part == "backend"]


def test_a_trace_goes_through_edge_backend_and_worker(
    tmp_path: Path, postgresql_server: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    with documented_spans() as collector, postgresql_server.database() as database:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        deployment = Deployment(tmp_path, database)
        try:
            backend = deployment.backend()
            deployment.worker()
            admin = deployment.admin(backend)
            workflow_id = admin.apply_test_workflows()["Echo"]
            caller = deployment.caller(deployment.edge(backend), admin)
            # The key's first start finds the facts by which the second is one statement.
            for trace_id in (TRACE, TRACE[::-1]):
                headers = {"traceparent": CALLER.replace(TRACE, trace_id), "Idempotency-Key": trace_id}
                path = f"/workflows/{workflow_id}/runs"
                answer = caller.call("POST", path, headers=headers, json_body={"input_text": "x"})
                assert answer.status == 201, answer
                assert caller.wait(answer.json()["run_id"])["status"] == "completed"
                run_id = answer.json()["run_id"]
                assert caller.call("GET", f"/runs/{run_id}", headers=headers).status == 200
                request, read = f"POST {BASE}/workflows/{{workflow_id}}/runs", f"GET {BASE}/runs/{{run_id}}"
                # What ends last in each process.
                collector.wait_for(trace_id, "segment", request, read)
                [segment] = collector.named("segment", trace_id)
                spans = collector.trace(trace_id)
                [step] = [span for span in spans if span.name == "step"]
                start = "workflow_api.v1.RunsService/StartRun"
                above = ancestors(step, spans)
                assert above == ["segment", start, start, request, "b7ad6b7169203331"]
                assert (segment.part, step.part) == ("worker", "worker")
                kinds = {(span.part, span.span.kind) for span in spans if span.name == start}
                assert kinds == {("edge", CLIENT), ("backend", SERVER)}
                until(partial(reads_at_backend, collector, trace_id), "the backend's part of the read")
                [got] = reads_at_backend(collector, trace_id)
                assert ancestors(got, collector.trace(trace_id))[:2] == [got.name, read]
                assert any("INSERT run_traces" in span.attributes.get("db.query.summary", "") for span in spans)
        finally:
            deployment.stop()
