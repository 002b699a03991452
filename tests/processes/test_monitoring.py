"""Dashboards and alerts under deploy/monitoring, and the metrics by key and workflow that some of them show."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from scripts.dashboards import DASHBOARDS, FOLDER, as_json
from tests.support.client import Caller
from tests.support.documented_metrics import documented_metrics
from tests.support.poll import until
from tests.support.prometheus_server import PrometheusServer
from tests.support.scrape import LISTEN, Scrape, scrape
from tests.support.service import Service

pytestmark = pytest.mark.long

ALERTS = FOLDER.parent / "alerts.yaml"
BY_NAME = {"WORKFLOW_API_METRICS_KEYS_AND_WORKFLOWS": "true"}
_METRIC = re.compile(r"\b(?:workflow_api|process)_[a-z_]+")


class Monitored(NamedTuple):
    """A service whose metrics name keys and workflows."""

    service: Service
    caller: Caller
    flows: dict[str, str]

    def scrape(self) -> Scrape:
        return scrape(self.service.ready["metrics"])


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    service = Service(tmp_path_factory.mktemp("monitored"), "--console", "127.0.0.1:0", variables={**LISTEN, **BY_NAME})
    service.start()
    try:
        yield Monitored(service, service.new_caller(), service.admin.apply_test_workflows())
    finally:
        service.stop()


def expressions() -> list[str]:
    """Every expression of the dashboards and alerts."""
    dashboards = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))]
    targets = [
        target["expr"] for board in dashboards for panel in board["panels"] for target in panel.get("targets", ())
    ]
    rules: list[Any] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    return [*targets, *(rule["expr"] for rule in rules)]


def test_the_dashboards_are_those_that_the_script_writes() -> None:
    assert {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()} == {
        f"{dashboard.name}.json": as_json(dashboard) for dashboard in DASHBOARDS
    }


def test_every_panel_shows_the_chosen_deployment_alone() -> None:
    for file in FOLDER.glob("*.json"):
        board = json.loads(file.read_text(encoding="utf-8"))
        variables = {each["name"]: each for each in board["templating"]["list"]}
        assert variables["job"]["query"]["query"] == "label_values(workflow_api_build_info, job)"
        assert not variables["job"].get("multi")
        assert not variables["job"].get("includeAll")
        queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
        chosen = [each["query"]["query"] for name, each in variables.items() if name not in {"datasource", "job"}]
        for query in [*queries, *chosen]:
            metrics = len(_METRIC.findall(query))
            assert metrics == query.count('{job="$job"') > 0, query


def test_dashboards_and_alerts_name_only_metrics_and_labels_that_exist() -> None:
    rows = documented_metrics(by_name=True)
    labels = {label for row in rows.values() for label in row.labels} | {"instance", "job", "process", "le"}
    for expression in expressions():
        for name in _METRIC.findall(expression):
            assert re.sub(r"_(bucket|count|sum)$", "", name) in rows or name in rows, expression
        for listed in re.findall(r"(?:by|without) \(([^)]*)\)", expression):
            assert set(re.findall(r"[a-z_]+", listed)) <= labels, expression
        for label in re.findall(r"([a-z_]+)(?:!=|=~|=)\"", expression):
            assert label in labels, expression


def test_calls_and_runs_are_counted_by_key_and_workflow(monitored: Monitored) -> None:
    caller, flows = monitored.caller, monitored.flows
    run = caller.finished(flows["Echo"], input_text="hello")
    caller.finished(flows["Failure"])
    parked = caller.parked(flows["Park"])["run_id"]
    assert caller.get("/runs/run_none").code == "run_not_found"
    workflow: dict[str, str] = {"workflow_id": run["workflow_id"], "key_id": caller.key_id}
    refused = {"key_id": caller.key_id, "status": "404", "code": "run_not_found"}
    until(lambda: monitored.scrape().value("key_requests_total", **refused) == 1, "the refusal to be counted")
    until(lambda: monitored.scrape().value("workflow_runs_ended_total", key_id=caller.key_id) == 2, "both ends")
    seen = monitored.scrape()
    assert seen.kinds.items() >= {name: row.kind for name, row in documented_metrics(by_name=True).items()}.items()
    assert seen.value("key_request_seconds_total", key_id=caller.key_id) > 0
    assert seen.value("workflow_runs_started_total", key_id=caller.key_id) == 3
    assert seen.value("workflow_runs_ended_total", **workflow, status="completed", reason="none") == 1
    assert seen.value("workflow_runs_ended_total", key_id=caller.key_id, reason="node_failed") == 1
    assert seen.value("workflow_run_seconds_total", **workflow) > 0
    assert seen.value("workflow_step_attempts_total", workflow_id=run["workflow_id"], outcome="failed") == 0
    assert seen.value("workflow_step_attempts_total", outcome="failed") == 1
    assert seen.value("workflow_runs", key_id=caller.key_id, status="waiting_for_approval") == 1
    caller.post(f"/runs/{parked}/cancel")
    caller.wait(parked)


def test_prometheus_evaluates_every_alert_and_panel(monitored: Monitored, tmp_path: Path) -> None:
    monitored.caller.finished(monitored.flows["Echo"])
    target = monitored.service.ready["metrics"].removeprefix("http://").removesuffix("/metrics")
    with PrometheusServer(tmp_path, target, ALERTS) as prometheus:
        until(lambda: len(prometheus.series("workflow_api_build_info")) == 1, "a scrape")
        until(lambda: {rule["health"] for rule in rules(prometheus)} == {"ok"}, "every rule to be evaluated")
        assert {rule["name"] for rule in rules(prometheus) if rule["state"] == "firing"} == set()
        for expression in expressions():
            asked = expression.replace("$__rate_interval", "1m").replace("$key", monitored.caller.key_id)
            prometheus.series(asked.replace("$workflow", monitored.flows["Echo"]).replace("$job", "workflow-api"))
        monitored.service.kill()
        try:
            until(lambda: not prometheus.series("up == 1"), "the end of the scrapes")
            until(
                lambda: (
                    {"NoMetrics", "ProcessDown"}
                    <= {rule["name"] for rule in rules(prometheus) if rule["state"] == "pending"}
                ),
                "NoMetrics and ProcessDown",
            )
        finally:
            monitored.service.start()


def rules(prometheus: PrometheusServer) -> list[Any]:
    """Returns the rules with their states."""
    found: list[Any] = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    return found
