"""Writes the Grafana dashboards in deploy/monitoring/dashboards; `--check` compares them instead.

A dashboard is a list of panels here, because in Grafana's JSON each panel is a page of defaults.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parents[1] / "deploy" / "monitoring" / "dashboards"

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_PANELS_IN_A_ROW: Final = 3
_HEIGHT: Final = 8
_P: Final = "workflow_api_"
_WORKFLOW: Final = 'workflow_id="$workflow"'
_KEY: Final = 'key_id="$key"'
_JOB: Final = 'job="$job"'
_METRIC: Final = re.compile(r"\b((?:P|process)_\w+)(?:\{([^}]*)\})?")


class Panel(NamedTuple):
    """A graph: its title, unit in Grafana's words, and queries by legend, where `P_` begins a metric of the service."""

    title: str
    unit: str
    queries: dict[str, str]


class Variable(NamedTuple):
    """Variable of a dashboard, chosen from the values of a label."""

    name: str
    title: str
    query: str
    regex: str = ""


class Dashboard(NamedTuple):
    """One dashboard: its file's name, title, description, and rows of panels by title."""

    name: str
    title: str
    description: str
    rows: dict[str, Sequence[Panel]]
    variable: Variable | None = None


def _quantiles(metric: str, by: str = "") -> dict[str, str]:
    grouped = f"le, {by}" if by else "le"
    legend = f"{{{{{by}}}}} " if by else ""
    rates = f"sum by ({grouped}) (rate(P_{metric}_bucket[$__rate_interval]))"
    return {f"{legend}p{share}": f"histogram_quantile(0.{share}, {rates})" for share in ((95,) if by else (50, 95, 99))}


def _rate(metric: str, by: str, where: str = "") -> dict[str, str]:
    chosen = f"{{{where}}}" if where else ""
    return {f"{{{{{by}}}}}": f"sum by ({by}) (rate(P_{metric}{chosen}[$__rate_interval]))"}


def _mean(seconds: str, number: str, where: str, by: str = "") -> str:
    total, events = (f"sum by ({by}) (rate(P_{metric}{{{where}}}[$__rate_interval]))" for metric in (seconds, number))
    return f"{total} / {events}"


SERVICE: Final = Dashboard(
    "service",
    "Workflow API: service",
    "The HTTP side, the services and what they depend on.",
    {
        "Requests": [
            Panel("Requests by status", "reqps", _rate("http_requests_total", "status")),
            Panel("Requests by route", "reqps", _rate("http_requests_total", "route")),
            Panel("Refusals by code", "reqps", _rate("http_refusals_total", "code")),
            Panel("Time to an answer", "s", _quantiles("http_request_seconds")),
            Panel("Time to an answer by route", "s", _quantiles("http_request_seconds", "route")),
            Panel(
                "Bytes of outputs sent", "Bps", {"bytes": "sum(rate(P_http_download_bytes_total[$__rate_interval]))"}
            ),
        ],
        "Edges": [
            Panel(
                "Connections",
                "short",
                {"{{instance}} {{process}}": "P_http_connections", "limit {{instance}}": "P_http_connections_limit"},
            ),
            Panel(
                "Requests in flight and waiting calls",
                "short",
                {"in flight": "sum(P_http_requests_in_flight)", "waiting": "sum(P_http_waiting)"},
            ),
            Panel(
                "Memory for requests and answers",
                "bytes",
                {"{{instance}} {{process}}": "P_http_held_bytes", "limit {{instance}}": "P_http_held_bytes_limit"},
            ),
            Panel("Age of the keys", "s", {"{{instance}} {{process}}": "P_keys_age_seconds"}),
            Panel(
                "Usage records",
                "short",
                {"pending": "sum(P_usage_records_pending)", "lost": "sum(increase(P_usage_records_lost_total[1h]))"},
            ),
            Panel(
                "Callers sent away, malformed requests",
                "reqps",
                {
                    "sent away": "sum(rate(P_http_callers_sent_away_total[$__rate_interval]))",
                    "malformed": "sum(rate(P_http_malformed_requests_total[$__rate_interval]))",
                },
            ),
        ],
        "Services": [
            Panel("Calls by code", "reqps", _rate("grpc_calls_total", "code")),
            Panel("Time in a call", "s", _quantiles("grpc_call_seconds", "method")),
            Panel("Streams", "short", {"{{method}}": "sum by (method) (P_grpc_streams)"}),
        ],
        "Database and object store": [
            Panel("Database up", "short", {"{{instance}}": "P_database_up"}),
            Panel("Time of a durable change", "s", _quantiles("database_write_seconds")),
            Panel("Wait for a connection", "s", _quantiles("database_connection_wait_seconds")),
            Panel("Database errors", "short", _rate("database_errors_total", "kind")),
            Panel("Object store", "s", _quantiles("object_store_seconds", "operation")),
            Panel("Object store errors", "short", _rate("object_store_errors_total", "operation")),
        ],
        "Processes": [
            Panel(
                "Processor time", "percentunit", {"{{instance}}": "rate(process_cpu_seconds_total[$__rate_interval])"}
            ),
            Panel("Memory", "bytes", {"{{instance}}": "process_resident_memory_bytes"}),
            Panel("Open files", "short", {"{{instance}}": "process_open_fds"}),
            Panel("Free on disks", "bytes", {"{{instance}} {{folder}}": "P_disk_free_bytes"}),
            Panel("Disks filling, an hour", "bytes", {"{{instance}} {{folder}}": "P_disk_filling_bytes_per_hour"}),
            Panel("Certificates expire in", "s", {"{{instance}} {{part}}": "P_certificate_expires_seconds"}),
            Panel("Backends that can be called", "short", {"{{instance}} {{backend}}": "P_backend_up"}),
            Panel("Releases", "short", {"{{part}} {{version}}": "count by (part, version) (P_build_info)"}),
            Panel("Background work that failed", "short", _rate("background_failures_total", "work")),
            Panel("Requests of the console", "reqps", _rate("console_requests_total", "status")),
        ],
    },
)

RUNS: Final = Dashboard(
    "runs",
    "Workflow API: runs",
    "What is started, waits, runs, fails and is erased.",
    {
        "Runs": [
            Panel("Started", "short", {"started": "sum(rate(P_runs_started_total[$__rate_interval]))"}),
            Panel("Ended", "short", _rate("runs_ended_total", "status")),
            Panel("Failed by code", "short", _rate("runs_ended_total", "reason", 'status="failed"')),
            Panel("In flight", "short", {"{{status}}": "max by (status) (P_runs)"}),
            Panel("Approvals that wait", "short", {"approvals": "max(P_approvals_pending)"}),
            Panel("Closed by the sweeper", "short", _rate("sweeper_runs_closed_total", "reason")),
        ],
        "Queue and workers": [
            Panel("Queued segments", "short", {"{{state}}": "max by (state) (P_segments_queued)"}),
            Panel("Wait of the oldest", "s", {"oldest": "max(P_oldest_queued_segment_seconds)"}),
            Panel(
                "Step slots",
                "short",
                {"in use {{instance}}": "P_step_slots_in_use", "slots {{instance}}": "P_step_slots"},
            ),
            Panel(
                "Workers", "short", {"workers": "max(P_workers)", "slots that accept runs": "max(P_workers_step_slots)"}
            ),
            Panel("Renewals of leases", "short", _rate("lease_renewals_total", "outcome")),
            Panel("Leases lost", "short", {"lost": "sum(increase(P_leases_lost_total[1h]))"}),
        ],
        "Steps": [
            Panel("Time of an attempt", "s", _quantiles("step_seconds", "agent")),
            Panel("Attempts", "short", _rate("step_seconds_count", "outcome")),
            Panel("Failures by cause", "short", _rate("step_failures_total", "type")),
        ],
        "Personal data, removal and delivery": [
            Panel("Sweeps", "s", _quantiles("redaction_seconds", "what")),
            Panel(
                "Final sweeps",
                "short",
                {
                    "pending": "max(P_final_sweeps_pending)",
                    "failed in an hour": "sum(increase(P_final_sweep_failures_total[1h]))",
                },
            ),
            Panel("Removals pending", "short", {"{{kind}}": "max by (kind) (P_removals_pending)"}),
            Panel("Runs erased", "short", {"erased": "sum(rate(P_runs_erased_total[$__rate_interval]))"}),
            Panel("Webhooks", "short", _rate("webhook_attempts_total", "outcome")),
            Panel(
                "Pending deliveries",
                "short",
                {"webhooks": "max(P_webhook_deliveries_pending)", "publications": "max(P_publications_pending)"},
            ),
        ],
    },
)

KEY: Final = Dashboard(
    "key",
    "Workflow API: one key",
    "What one key calls and starts. Needs `metrics.keys_and_workflows`.",
    {
        "Requests": [
            Panel("Requests by status", "reqps", _rate("key_requests_total", "status", _KEY)),
            Panel("Refusals by code", "reqps", _rate("key_requests_total", "code", f'{_KEY}, code!="none"')),
            Panel(
                "Mean time to an answer", "s", {"mean": _mean("key_request_seconds_total", "key_requests_total", _KEY)}
            ),
        ],
        "Runs": [
            Panel("Started by workflow", "short", _rate("workflow_runs_started_total", "workflow", _KEY)),
            Panel("Ended", "short", _rate("workflow_runs_ended_total", "status", _KEY)),
            Panel("Failed by code", "short", _rate("workflow_runs_ended_total", "reason", f'{_KEY}, status="failed"')),
            Panel(
                "In flight",
                "short",
                {"{{status}}": f"sum by (status) (max without (instance, job, part) (P_workflow_runs{{{_KEY}}}))"},
            ),
            Panel(
                "Mean time of a run",
                "s",
                {"{{workflow}}": _mean("workflow_run_seconds_total", "workflow_runs_ended_total", _KEY, "workflow")},
            ),
        ],
    },
    Variable("key", "Key", f"label_values({_P}key_requests_total{{{_JOB}}}, key_id)"),
)

WORKFLOW: Final = Dashboard(
    "workflow",
    "Workflow API: one workflow",
    "The runs and steps of one workflow. Needs `metrics.keys_and_workflows`.",
    {
        "Runs": [
            Panel("Started by key", "short", _rate("workflow_runs_started_total", "key_id", _WORKFLOW)),
            Panel("Ended", "short", _rate("workflow_runs_ended_total", "status", _WORKFLOW)),
            Panel(
                "Failed by code", "short", _rate("workflow_runs_ended_total", "reason", f'{_WORKFLOW}, status="failed"')
            ),
            Panel(
                "In flight",
                "short",
                {"{{status}}": f"sum by (status) (max without (instance, job, part) (P_workflow_runs{{{_WORKFLOW}}}))"},
            ),
            Panel(
                "Mean time of a run",
                "s",
                {"mean": _mean("workflow_run_seconds_total", "workflow_runs_ended_total", _WORKFLOW)},
            ),
        ],
        "Steps": [
            Panel("Attempts", "short", _rate("workflow_step_attempts_total", "step", _WORKFLOW)),
            Panel(
                "Failed attempts",
                "short",
                _rate("workflow_step_attempts_total", "step", f'{_WORKFLOW}, outcome="failed"'),
            ),
            Panel(
                "Mean time of an attempt",
                "s",
                {"{{step}}": _mean("workflow_step_seconds_total", "workflow_step_attempts_total", _WORKFLOW, "step")},
            ),
        ],
    },
    Variable(
        "workflow",
        "Workflow",
        f"query_result(count by (workflow, workflow_id) ({_P}workflow_runs_started_total{{{_JOB}}}))",
        '/workflow="(?<text>[^"]+)".*workflow_id="(?<value>[^"]+)"/',
    ),
)

DASHBOARDS: Final = (SERVICE, RUNS, KEY, WORKFLOW)


def as_json(dashboard: Dashboard) -> str:
    """Returns the dashboard as Grafana imports it."""
    model = {
        "uid": f"workflow-api-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["workflow-api"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables(dashboard))},
        "links": [{"type": "dashboards", "tags": ["workflow-api"], "title": "Workflow API", "asDropdown": True}],
        "panels": list(_panels(dashboard)),
    }
    return json.dumps(model, indent=1, ensure_ascii=False) + "\n"


def _variables(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    deployment = Variable("job", "Deployment", f"label_values({_P}build_info, job)")
    for name, title, query, regex in filter(None, (deployment, dashboard.variable)):
        yield {
            "name": name,
            "label": title,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "regex": regex,
            "refresh": 2,
            "sort": 1,
        }


def _expanded_query(query: str) -> str:
    """Returns a query with the metrics' full names, for the chosen deployment alone."""
    return _METRIC.sub(
        lambda found: f"{found[1].replace('P_', _P)}{{{', '.join(filter(None, (_JOB, found[2])))}}}", query
    )


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    numbers, top = count(1), 0
    for title, panels in dashboard.rows.items():
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {"id": next(numbers), "type": "row", "title": title, "gridPos": place, "panels": []}
        top += 1
        width = _WIDTH // _PANELS_IN_A_ROW
        for position, panel in enumerate(panels):
            row, column = divmod(position, _PANELS_IN_A_ROW)
            place = {"x": column * width, "y": top + row * _HEIGHT, "w": width, "h": _HEIGHT}
            yield {
                "id": next(numbers),
                "type": "timeseries",
                "title": panel.title,
                "datasource": _SOURCE,
                "gridPos": place,
                "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
                "targets": [
                    {"refId": chr(ord("A") + number), "expr": _expanded_query(query), "legendFormat": legend}
                    for number, (legend, query) in enumerate(panel.queries.items())
                ],
            }
        top += -(-len(panels) // _PANELS_IN_A_ROW) * _HEIGHT


def main() -> None:
    """Writes the dashboards, or compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare the files instead of writing them")
    check = parser.parse_args().check
    stale = []
    for dashboard in DASHBOARDS:
        file, text = FOLDER / f"{dashboard.name}.json", as_json(dashboard)
        if not check:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(file.name)
    if stale:
        sys.exit(f"Not current: {', '.join(stale)}; run python scripts/dashboards.py")


if __name__ == "__main__":
    main()
