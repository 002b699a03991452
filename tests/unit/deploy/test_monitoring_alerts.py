"""Alerts fire for the fault that they are for, and not for a deployment that works."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from backend.common.certificate_expiry import SOON, VERY_SOON

ALERTS = Path("deploy/monitoring/alerts.yaml").absolute()
NAMES = re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE)
MINUTES = 90

P = "workflow_api_"
SEVERAL = {f"{P}workers_step_slots": "8", f"{P}segments_queued": "0", f"{P}build_info{{part='edge'}}": "1"}
# Another deployment beside it in the same Prometheus, busy and in order.
HEALTHY = {
    "up": "1",
    f"{P}build_info{{part='edge'}}": "1",
    f"{P}database_up": "1",
    f"{P}database_errors_total{{kind='commit'}}": "0",
    f"{P}keys_age_seconds": "1",
    f"{P}http_requests_total{{status='200'}}": "0+100000x100",
    f"{P}http_refusals_total{{code='internal'}}": "0",
    f"{P}runs_ended_total{{status='failed', reason='orphaned'}}": "0",
    f"{P}oldest_queued_segment_seconds": "1",
    f"{P}segments_queued": "1",
    f"{P}workers_step_slots": "8",
    f"{P}step_slots": "8",
    f"{P}final_sweep_failures_total": "0",
    f"{P}removals_pending{{kind='run'}}": "0",
    f"{P}object_store_errors_total": "0",
    f"{P}rate_limit_shared": "1",
    f"{P}usage_records_lost_total": "0",
    f"{P}http_connections": "1",
    f"{P}http_connections_limit": "1000",
    f"{P}webhook_attempts_total{{outcome='delivered'}}": "0+1000x100",
    f"{P}webhooks_paused_total{{reason='gone'}}": "0",
    f"{P}leases_lost_total": "0",
}


def _disk(total: float, free: float, filling: float = 0) -> dict[str, str]:
    numbers = {"disk_bytes": total, "disk_free_bytes": free, "disk_filling_bytes_per_hour": filling}
    return {f"{P}{name}{{folder='data'}}": f"{number:.0f}" for name, number in numbers.items()}


FAULTS: dict[str, tuple[str | None, dict[str, str]]] = {
    "several machines that work": (None, SEVERAL),
    "one process with all slots in use": (
        None,
        {f"{P}workers_step_slots": "0", f"{P}step_slots": "8", f"{P}segments_queued": "5"},
    ),
    "one webhook receiver of several is not reached": (
        None,
        {f"{P}webhook_attempts_total{{outcome='{outcome}'}}": "0+1x100" for outcome in ("name", "delivered")},
    ),
    "several edges that start": (
        None,
        {
            **{f"{P}build_info{{part='edge', pod='{pod}'}}": "1" for pod in ("one", "two")},
            f"{P}rate_limit_shared": "_ _ 1x100",
        },
    ),
    "no process is scraped": ("NoMetrics", {f"{P}build_info": "1 1 stale"}),
    "a process has ended": ("ProcessDown", {"up": "1 1 0x100", f"{P}build_info": "1 1 stale"}),
    "the database is away": ("DatabaseAway", {f"{P}database_up": "0"}),
    "the database does not answer one backend of two": (
        "DatabaseAway",
        {f"{P}database_up{{pod='one'}}": "1", f"{P}database_up{{pod='two'}}": "0"},
    ),
    "the disk of the embedded database is full": (
        "CommitsFail",
        {f"{P}database_errors_total{{kind='commit'}}": "0+1x100"},
    ),
    "an edge has lost its backend": ("KeysStale", {f"{P}keys_age_seconds": "0+60x100"}),
    "one request in eleven fails": (
        "ServerErrors",
        {
            f"{P}http_requests_total{{status='502'}}": "0+1x100",
            f"{P}http_requests_total{{status='200'}}": "0+10x100",
        },
    ),
    "a request is answered internal": ("Defect", {f"{P}http_refusals_total{{code='internal'}}": "0+1x100"}),
    "a worker has ended": (
        "RunsInterrupted",
        {f"{P}runs_ended_total{{status='failed', reason='orphaned'}}": "0+1x100"},
    ),
    "a segment stays in the queue": ("RunsWait", {f"{P}oldest_queued_segment_seconds": "0+60x100"}),
    "runs are queued and all workers are gone": (
        "NoWorker",
        {**SEVERAL, f"{P}workers_step_slots": "0", f"{P}segments_queued": "5"},
    ),
    "the only worker takes no runs": (
        "NoWorker",
        {f"{P}workers_step_slots": "0", f"{P}step_slots": "0", f"{P}segments_queued": "5"},
    ),
    "final sweeps fail": ("OutputsClosed", {f"{P}final_sweep_failures_total": "0+1x100"}),
    "data of an erased run cannot be removed": ("NotErased", {f"{P}removals_pending{{kind='run'}}": "1"}),
    "the object store fails": ("ObjectsFail", {f"{P}object_store_errors_total": "0+1x100"}),
    "Redis is away": ("LimitsNotShared", {f"{P}rate_limit_shared": "0"}),
    "two edges have no Redis": (
        "EdgesCountAlone",
        {f"{P}build_info{{part='edge', pod='{pod}'}}": "1" for pod in ("one", "two")},
    ),
    "usage records are dropped": ("UsageLost", {f"{P}usage_records_lost_total": "0+1x100"}),
    "an edge has few connections left": (
        "EdgeFull",
        {f"{P}http_connections": "95", f"{P}http_connections_limit": "100"},
    ),
    "no webhook receiver is reached": (
        "WebhooksFail",
        {
            f"{P}webhook_attempts_total{{outcome='{outcome}'}}": values
            for outcome, values in {"name": "0+1x100", "delivered": "4x100"}.items()
        },
    ),
    "a webhook was paused": ("WebhooksPaused", {f"{P}webhooks_paused_total{{reason='gone'}}": "0x60 1x60"}),
    "a certificate expires within two weeks": (
        "CertificateExpiresSoon",
        {f"{P}certificate_expires_seconds{{part='edge'}}": str(13 * 86_400)},
    ),
    "a certificate expires within a day": (
        "CertificateExpires",
        {f"{P}certificate_expires_seconds{{part='backend'}}": str(23 * 3_600)},
    ),
    "a certificate is valid for three weeks": (None, {f"{P}certificate_expires_seconds": str(21 * 86_400)}),
    "one backend of two cannot be called": (
        "BackendUnusable",
        {f"{P}backend_up{{backend='one'}}": "1", f"{P}backend_up{{backend='two'}}": "0"},
    ),
    "a backend has another contract": (
        "BackendIncompatible",
        {f"{P}backend_up{{backend='two'}}": "0", f"{P}backend_compatible{{backend='two'}}": "0"},
    ),
    "a disk has a twentieth free": ("DiskLow", _disk(100e9, 5e9)),
    "a disk is full within a day": ("DiskLow", _disk(1000e9, 200e9, filling=10e9)),
    "a disk has a fiftieth free": ("DiskFillsUp", _disk(100e9, 2e9)),
    "a disk is full within four hours": ("DiskFillsUp", _disk(1000e9, 100e9, filling=50e9)),
    "a large disk fills slowly": (None, _disk(1000e9, 700e9, filling=100e9)),
    "a lease was lost": ("LeaseLost", {f"{P}leases_lost_total": "0+1x100"}),
}
# The only process of a deployment is the last that is scraped, and what is critical was a warning before.
COMPANIONS = {
    "ProcessDown": {"NoMetrics"},
    "CertificateExpires": {"CertificateExpiresSoon"},
    "BackendIncompatible": {"BackendUnusable"},
    "DiskFillsUp": {"DiskLow"},
}


def test_every_alert_has_a_fault_that_it_fires_for() -> None:
    assert {alert for alert, _ in FAULTS.values()} - {None} == set(NAMES)
    assert len(NAMES) > 19


@pytest.mark.long
@pytest.mark.parametrize(("alert", "series"), FAULTS.values(), ids=FAULTS)
def test_an_alert_fires_for_its_fault_alone(alert: str | None, series: dict[str, str], tmp_path: Path) -> None:
    given = {f"{P}build_info": "1", **series}
    labelled = {_labelled(name, "workflow-api"): value for name, value in given.items()}
    labelled |= {_labelled(name, "other"): value for name, value in HEALTHY.items()}
    expect_firing({alert, *COMPANIONS.get(alert or "", ())} - {None}, labelled, tmp_path)


def test_a_prometheus_that_has_scraped_no_deployment_at_all_is_an_alert(tmp_path: Path) -> None:
    expect_firing({"NoMetrics"}, {"up{job='workflow-api', instance='a'}": "0"}, tmp_path)


def expect_firing(firing: AbstractSet[str | None], series: dict[str, str], folder: Path) -> None:
    """Runs the rules over these series; exactly these alerts fire at the end, and the others never did."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    text = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": value if " " in value or "x" in value else f"{value}x100"}
                    for name, value in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"count by (alertname) ({_alerts(name, ever=name not in firing)})",
                        "eval_time": f"{MINUTES}m",
                        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name in firing else [],
                    }
                    for name in NAMES
                ],
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(text))
    ended = subprocess.run(
        ["promtool", "test", "rules", folder / "test.json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _alerts(name: str, *, ever: bool) -> str:
    fired = f"ALERTS{{alertname=\"{name}\", alertstate='firing'}}"
    return f"max_over_time({fired}[{MINUTES}m])" if ever else fired


def _labelled(name: str, job: str) -> str:
    """Returns a series as Prometheus has it of one target."""
    metric, _, labels = name.partition("{")
    of_target = f"job='{job}', instance='a'"
    return f"{metric}{{{of_target}, {labels}" if labels else f"{metric}{{{of_target}}}"


def test_alerts_about_certificates_have_the_thresholds_of_findings() -> None:
    text = ALERTS.read_text()
    thresholds = re.findall(r"expr: workflow_api_certificate_expires_seconds < ([0-9* ]+)$", text, re.MULTILINE)
    seconds = [math.prod(int(part) for part in each.split("*")) for each in thresholds]
    assert seconds == [SOON.total_seconds(), VERY_SOON.total_seconds()]
