"""Alerts fire for the fault that they are for, and not for a deployment that works."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ALERTS = Path("deploy/monitoring/alerts.yaml").absolute()
MINUTES = 50

P = "workflow_api_"
SEVERAL = {f"{P}workers_step_slots": "8", f"{P}segments_queued": "0", f"{P}build_info{{part='edge'}}": "1"}
FAULTS: dict[str, tuple[str | None, dict[str, str]]] = {
    "several machines that work": (None, SEVERAL),
    "one process with all slots in use": (
        None,
        {f"{P}workers_step_slots": "0", f"{P}step_slots": "8", f"{P}segments_queued": "5"},
    ),
    "runs are queued and all workers are gone": (
        "NoWorker",
        {**SEVERAL, f"{P}workers_step_slots": "0", f"{P}segments_queued": "5"},
    ),
    "a worker that takes no runs": (
        "NoWorker",
        {f"{P}workers_step_slots": "0", f"{P}step_slots": "0", f"{P}segments_queued": "5"},
    ),
    "the database is away": ("DatabaseAway", {f"{P}database_up": "0"}),
    "the store fails": ("ObjectsFail", {f"{P}object_store_errors_total": "0+1x100"}),
    "one that was paused": ("WebhooksPaused", {f"{P}webhooks_paused_total{{reason='gone'}}": "0 0 1x100"}),
    "no receiver that is reached": (
        "WebhooksFail",
        {
            f"{P}webhook_attempts_total{{outcome='{outcome}'}}": values
            for outcome, values in {"name": "0+1x100", "delivered": "4x100"}.items()
        },
    ),
    "one receiver of several that is not reached": (
        None,
        {f"{P}webhook_attempts_total{{outcome='{outcome}'}}": "0+1x100" for outcome in ("name", "delivered")},
    ),
    "one that waits": ("RunsWait", {f"{P}oldest_queued_segment_seconds": "0+60x100"}),
    "a full disk": ("CommitsFail", {f"{P}database_errors_total{{kind='commit'}}": "0+1x100"}),
    "an edge without its backend": ("KeysStale", {f"{P}keys_age_seconds": "0+60x100"}),
    "Redis is away": ("LimitsNotShared", {f"{P}rate_limit_shared": "0"}),
    "a worker that ended": (
        "RunsInterrupted",
        {f"{P}runs_ended_total{{status='failed', reason='orphaned'}}": "0+1x100"},
    ),
    "a process that ended": ("ProcessDown", {"up": "1 1 0x100", f"{P}build_info": "1 1 stale"}),
}


@pytest.mark.parametrize(("alert", "series"), FAULTS.values(), ids=FAULTS)
def test_an_alert_fires_for_its_fault_alone(alert: str | None, series: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    given = {f"{P}build_info": "1", **series}
    names = {rule for rule, _ in FAULTS.values() if rule is not None}
    text = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": _labelled(name), "values": value if " " in value or "x" in value else f"{value}x100"}
                    for name, value in given.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"count by (alertname) (ALERTS{{alertname=\"{name}\", alertstate='firing'}})",
                        "eval_time": f"{MINUTES}m",
                        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name == alert else [],
                    }
                    for name in sorted(names)
                ],
            }
        ],
    }
    (tmp_path / "test.json").write_text(json.dumps(text))
    ended = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _labelled(name: str) -> str:
    """Returns a series as Prometheus has it of one target."""
    metric, _, labels = name.partition("{")
    of_target = "job='workflow-api', instance='a'"
    return f"{metric}{{{of_target}, {labels}" if labels else f"{metric}{{{of_target}}}"
