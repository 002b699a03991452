"""Metrics of a started service: exactly those that docs/metrics.md lists, without data of callers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from tests.conftest import NewDatabase
from tests.support.client import Caller
from tests.support.documented_metrics import documented_metrics
from tests.support.part import Part, refused
from tests.support.poll import until
from tests.support.scrape import LISTEN, Scrape, fetch, scrape
from tests.support.service import Service
from tests.support.wire import BASE, Wire

pytestmark = pytest.mark.long


class MeteredService(NamedTuple):
    """A service with metrics, and a caller of it."""

    service: Service
    caller: Caller
    flows: dict[str, str]

    @property
    def url(self) -> str:
        url: str = self.service.ready["metrics"]
        return url

    def scrape(self) -> Scrape:
        return scrape(self.url)


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase) -> Iterator[MeteredService]:
    folder = tmp_path_factory.mktemp("metrics")
    service = Service(folder, "--console", "127.0.0.1:0", database=new_database(), variables=LISTEN)
    service.start()
    try:
        with urlopen(service.ready["console"] + "sign-in", timeout=30) as page:
            assert page.status == 200
        yield MeteredService(service, service.new_caller(), service.admin.apply_test_workflows())
    finally:
        service.stop()


def test_the_document_lists_exactly_the_metrics_that_a_service_reports(metered: MeteredService) -> None:
    metered.caller.finished(metered.flows["Echo"])
    seen = metered.scrape()
    rows = documented_metrics(by_name=False)
    assert {name: row.kind for name, row in rows.items()} == seen.kinds
    # Where there is no series yet, its labels are not to be seen.
    assert {name: row.labels for name, row in rows.items() if seen.labels[name]} == {
        name: labels for name, labels in seen.labels.items() if labels
    }
    assert {name for name, row in rows.items() if not seen.labels[name] and row.labels} <= {
        "workflow_api_backend_compatible",
        "workflow_api_backend_up",
        "workflow_api_background_failures_total",
        "workflow_api_certificate_expires_seconds",
        "workflow_api_database_connections",
        "workflow_api_disk_filling_bytes_per_hour",
        "workflow_api_grpc_streams_ended_total",
        "workflow_api_model_calls_total",
        "workflow_api_model_cost_microusd_total",
        "workflow_api_model_tokens_total",
        "workflow_api_model_unpriced_calls_total",
        "workflow_api_notification_attempts_total",
        "workflow_api_redaction_seconds",
    }


def test_requests_are_counted_by_route_and_status(metered: MeteredService) -> None:
    route = f"{BASE}/runs/{{run_id}}"
    before = metered.scrape()
    for _ in range(3):
        assert metered.caller.get("/me").status == 200
    for _ in range(2):
        assert metered.caller.get("/runs/run_none").code == "run_not_found"
    assert metered.service.call("GET", "/me").code == "unauthorized"
    assert metered.service.call("BREW", "/coffee").code == "not_found"
    after = metered.scrape()

    def more(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert more("http_requests_total", route=f"{BASE}/me", method="GET", status="200") == 3
    assert more("http_requests_total", route=f"{BASE}/me", method="GET", status="401") == 1
    assert more("http_requests_total", route=route, status="404") == 2
    assert more("http_requests_total", route="other", method="other", status="404") == 1
    assert more("http_requests_total") == 7
    assert more("http_request_seconds_count", route=route, method="GET") == 2
    assert more("http_request_seconds_bucket", route=route, le="+Inf") == 2
    assert more("http_refusals_total", code="run_not_found") == 2
    assert more("http_refusals_total", code="unauthorized") == 1
    assert more("http_refusals_total") == 4
    assert more("grpc_calls_total", method="RunsService/GetRun", code="NOT_FOUND") == 2
    assert more("grpc_call_seconds_count", method="RunsService/GetRun") == 2


def test_malformed_requests_are_counted_apart(metered: MeteredService) -> None:
    before = metered.scrape()
    with Wire(metered.service.address) as wire:
        wire.send(b"nonsense\r\n\r\n")
        assert wire.answer().status == 400
    after = metered.scrape()
    assert after.value("http_malformed_requests_total") - before.value("http_malformed_requests_total") == 1
    assert after.value("http_requests_total") == before.value("http_requests_total")


def test_full_minutes_are_counted(metered: MeteredService) -> None:
    before = metered.scrape().value("http_refusals_total", code="rate_limited")
    caller = metered.service.new_caller(rate_limit_rpm=1)
    until(lambda: caller.get("/me").status == 429, "a full minute")
    assert metered.scrape().value("http_refusals_total", code="rate_limited") - before == 1


def test_runs_and_their_steps_are_counted(metered: MeteredService) -> None:
    before = metered.scrape()
    run = metered.caller.finished(metered.flows["Echo"], input_text="hello")
    failed = metered.caller.finished(metered.flows["Failure"])
    assert (run["status"], failed["status"]) == ("completed", "failed")
    # Counted once it is committed, when it can be read already.
    until(lambda: metered.scrape().value("runs_ended_total") == before.value("runs_ended_total") + 2, "the ends")
    after = metered.scrape()

    def more(name: str, **labels: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert more("runs_started_total") == 2
    assert more("runs_ended_total", status="completed", reason="none") == 1
    assert more("runs_ended_total", status="failed", reason="node_failed") == 1
    assert more("runs_ended_total") == 2
    assert more("step_seconds_count", agent="python", outcome="completed") == 2
    assert more("step_seconds_count", agent="python", outcome="failed") == 1
    assert more("step_failures_total", type="agent") == more("step_failures_total") == 1
    assert more("object_store_seconds_count", operation="put_file") == 2
    assert more("database_write_seconds_count") > 0


def test_a_download_is_counted_in_bytes(metered: MeteredService) -> None:
    run = metered.caller.finished(metered.flows["Tree"])
    path = metered.caller.outputs(run["run_id"])["grow/bytes.bin"]["download"]["path"]
    before = metered.scrape().value("http_download_bytes_total")
    assert len(metered.caller.get(path.removeprefix(BASE)).body) == 1024
    assert metered.scrape().value("http_download_bytes_total") - before == 1024


def test_pending_work_is_reported(metered: MeteredService) -> None:
    before = metered.scrape()
    parked = metered.caller.parked(metered.flows["Park"])["run_id"]
    asleep = metered.caller.started(metered.flows["Sleep"], parameters={"seconds": 60})
    metered.caller.wait_for_event(asleep, "step.progress")
    during = metered.scrape()
    assert during.value("database_up") == 1
    assert during.value("approvals_pending") - before.value("approvals_pending") == 1
    assert (
        during.value("runs", status="waiting_for_approval") - before.value("runs", status="waiting_for_approval") == 1
    )
    assert during.value("runs", status="running") == 1
    assert during.value("segments_running") == 1
    assert (during.value("step_slots"), during.value("step_slots_in_use")) == (8, 1)
    assert during.value("oldest_queued_segment_seconds") == 0
    for run_id in (parked, asleep):
        metered.caller.post(f"/runs/{run_id}/cancel")
        metered.caller.wait(run_id)
    cancelled = before.value("runs_ended_total", status="cancelled") + 2
    until(lambda: metered.scrape().value("runs_ended_total", status="cancelled") == cancelled, "the ends")
    assert metered.scrape().value("runs") == before.value("runs")


def test_an_erasure_is_counted_and_done(metered: MeteredService) -> None:
    run = metered.caller.finished(metered.flows["Echo"])
    before = metered.scrape().value("runs_erased_total")
    assert metered.caller.delete(f"/runs/{run['run_id']}/data").status == 202
    assert metered.scrape().value("runs_erased_total") - before == 1
    until(lambda: metered.scrape().value("removals_pending") == 0, "the removal of its objects")


def test_metrics_identify_no_caller_run_or_content(metered: MeteredService) -> None:
    caller, word = metered.caller, "supercalifragilistic"
    run: dict[str, Any] = caller.finished(metered.flows["Echo"], input_text=word, client_reference=word)
    metered.service.call("GET", f"/{word}")
    metered.service.call(word.upper(), "/me")
    text = fetch(metered.url).body.decode()
    private = (word, run["run_id"], run["workflow_id"], caller.key_id, caller.key, caller.external_id, "127.0.0.1")
    assert [secret for secret in private if secret.lower() in text.lower()] == []


def test_the_metrics_port_serves_only_metrics_and_probes(metered: MeteredService) -> None:
    assert fetch(metered.url).headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert {path: fetch(metered.url, path).status for path in ("/alive", "/ready")} == {"/alive": 200, "/ready": 200}
    assert fetch(metered.url, "/").status == 404
    assert fetch(metered.url, f"{BASE}/health").status == 404
    assert fetch(metered.url, method="POST").status == 501


def test_a_caller_that_stops_reading_delays_no_other(metered: MeteredService) -> None:
    host, _, port = metered.url.removeprefix("http://").removesuffix("/metrics").partition(":")
    with Wire((host, int(port))) as silent:
        silent.send(b"GET /metrics HT")
        assert metered.scrape().value("build_info", part="serve") == 1


def test_metrics_are_off_by_default(service: Service) -> None:
    assert "metrics" not in service.ready


def test_an_address_in_use_fails_the_start(metered: MeteredService, tmp_path: Path) -> None:
    taken = metered.url.removeprefix("http://").removesuffix("/metrics")
    line = refused("serve", "--data", str(tmp_path), variables={"WORKFLOW_API_METRICS_LISTEN": taken})
    assert line == f"The metrics address {taken} is in use by another process."


def scrape_of_console(folder: Path, grpc: str) -> Scrape:
    with Part.started(folder, "console", "--http", "127.0.0.1:0", "--grpc", grpc, variables=LISTEN) as console:
        scraped = scrape(console.ready["metrics"])
        assert scraped.value("build_info", part="console") == 1
        return scraped


def test_a_backend_and_an_edge_report_metrics(tmp_path: Path) -> None:
    command = ("backend", "--data", str(tmp_path / "data"), "--grpc", "127.0.0.1:0")
    with Part.started(tmp_path / "backend", *command, variables=LISTEN) as backend:
        front = ("edge", "--http", "127.0.0.1:0", "--grpc", backend.ready["grpc"])
        with Part.started(tmp_path / "edge", *front, variables=LISTEN) as edge:
            at_backend, at_edge = scrape(backend.ready["metrics"]), scrape(edge.ready["metrics"])
            assert at_backend.value("build_info", part="backend") == at_edge.value("build_info", part="edge") == 1
            assert at_backend.value("grpc_streams", method="EdgeService/WatchKeyMirror") == 1
            assert 0 <= at_edge.value("keys_age_seconds") < 60
            common = {name for name in at_backend.kinds if name in at_edge.kinds}
            everywhere = {"build_info", "certificate_expires_seconds", "log_lines_dropped_total", "trace_spans_total"}
            named = {name for name in common if not name.startswith("process_")}
            assert named == {f"workflow_api_{name}" for name in everywhere}
            at_console = scrape_of_console(tmp_path / "console", backend.ready["grpc"])
            assert {*at_backend.kinds, *at_edge.kinds, *at_console.kinds} == set(documented_metrics(by_name=False))
