"""Live page of the deployment's health: findings, processes, waiting work and free disk space."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from console.rendering import formatting
from console.rendering.formatting import Badge
from console.visit import ADMINISTRATORS, PageEvents, PageResult, View, Visit
from contract.times import approximate, milliseconds_of
from workflow_api.v1 import deployment_health_pb2
from workflow_api.v1.deployment_health_pb2 import (
    DeploymentHealth,
    DeploymentProcess,
    DiskSpace,
    GetDeploymentHealthRequest,
    HealthFinding,
    NotificationTargetState,
    PendingWork,
    WaitingRuns,
    WorkerLease,
)

REFRESH_SECONDS: Final = 5.0
"""Seconds between two refreshes of the page."""
_NEAR_MS: Final = 100
"""Difference of clocks below which a message's delay could be the cause."""

_LINKS: Final[Mapping[int, tuple[str, str]]] = {
    deployment_health_pb2.HEALTH_TOPIC_PROCESSES: ("#processes", "Processes"),
    deployment_health_pb2.HEALTH_TOPIC_QUEUE: ("/runs?status=queued", "Queued runs"),
    deployment_health_pb2.HEALTH_TOPIC_DISK: ("/deployment", "Days to keep run data"),
    deployment_health_pb2.HEALTH_TOPIC_CLOCK: ("#processes", "Processes"),
    deployment_health_pb2.HEALTH_TOPIC_REDACTION: ("/runs?status=completed", "Completed runs"),
    deployment_health_pb2.HEALTH_TOPIC_CERTIFICATES: ("#processes", "Processes"),
    deployment_health_pb2.HEALTH_TOPIC_DATABASE: ("#storage", "Storage"),
}


class _Work(NamedTuple):
    """Waiting work of one kind, and the path of its page."""

    label: str
    number: int
    path: str = ""


async def show(visit: Visit) -> PageResult:
    """Shows the health of the deployment."""
    health: DeploymentHealth = await visit.services.call(
        "DeploymentHealthService/GetDeploymentHealth", GetDeploymentHealthRequest()
    )
    pending = health.pending
    context: dict[str, Any] = {
        "health": health,
        "findings": [_finding(each) for each in health.findings],
        "processes": [_process(each) for each in health.processes],
        "leases": [(each, _lease(each, health)) for each in health.leases],
        "work": _work(pending),
        "targets": [(each, _target(each)) for each in health.notification_targets],
        "oldest": formatting.duration(milliseconds_of(pending.oldest_queued))
        if pending.HasField("oldest_queued")
        else "",
        "by_workflow": [_waiting(each) for each in pending.by_workflow],
        "by_key": [_waiting(each) for each in pending.by_key],
        "links_keys": visit.user.role in ADMINISTRATORS,
        "start_wait": formatting.start_wait(
            pending.start_wait if pending.HasField("start_wait") else None,
            pending.oldest_queued if pending.HasField("oldest_queued") else None,
        ),
        "disks": _disks(health),
        "database_size": formatting.size(health.database_bytes),
        "database_took": formatting.duration(milliseconds_of(health.database_took)),
    }
    return View("deployment/health.html", context)


async def stream(_: Visit) -> PageResult:
    """Streams a refresh every few seconds, because ages and waiting times always change."""
    return PageEvents(_refreshes())


async def _refreshes() -> AsyncIterator[tuple[str, str]]:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        yield "refresh", ""


def _finding(finding: HealthFinding) -> tuple[HealthFinding, Badge, tuple[str, str]]:
    badge = Badge("critical", "bad") if finding.critical else Badge("warning", "warn")
    return finding, badge, _LINKS.get(finding.topic, ("", ""))


def _process(process: DeploymentProcess) -> tuple[DeploymentProcess, Badge, str]:
    """Returns a process with the badge of its state and its clock's deviation as text."""
    clock = ""
    if process.HasField("clock_ahead"):
        ahead = process.clock_ahead.ToMilliseconds()
        way = "ahead" if ahead > 0 else "behind"
        clock = "exact" if abs(ahead) < _NEAR_MS else f"{formatting.duration(abs(ahead))} {way}"
    return process, Badge("running", "good") if process.alive else Badge("gone", "bad"), clock


def _lease(lease: WorkerLease, health: DeploymentHealth) -> Badge:
    if milliseconds_of(lease.lease_until) <= milliseconds_of(health.checked_at):
        return Badge("expired", "bad")
    return Badge("draining", "warn") if lease.draining else Badge("held", "good")


def _waiting(runs: WaitingRuns) -> tuple[WaitingRuns, str]:
    """Returns waiting runs with the probable wait of a further one as text."""
    if not runs.HasField("next_wait"):
        return runs, "unknown"
    return runs, approximate(milliseconds_of(runs.next_wait))


def _target(target: NotificationTargetState) -> Badge:
    if target.HasField("error"):
        return Badge(f"fails: {target.error}", "bad")
    return Badge("works", "good") if target.HasField("delivered_at") else Badge("not used yet", "soft")


def _work(pending: PendingWork) -> list[_Work]:
    return [
        _Work("Runs that have not begun", pending.runs_queued, "/runs?status=queued"),
        _Work("Runs that execute", pending.runs_running, "/runs?status=running"),
        _Work("Runs that wait for a person", pending.runs_waiting_for_approval, "/approvals"),
        _Work("Queued parts of runs", pending.segments_queued),
        _Work("Runs to be swept for personal data", pending.sweeps),
        _Work("Publications to knowledge graphs", pending.publications, "/resources/graphs"),
        _Work("Messages to webhooks", pending.webhook_deliveries),
        _Work("Removals from the object store", pending.removals),
    ]


class _Disk(NamedTuple):
    """A file system: its machine, its content, used and free space as text, and the used percentage."""

    host: str
    holds: str
    used: str
    free: str
    percent: int


def _disks(health: DeploymentHealth) -> list[_Disk]:
    """Returns each file system once; file systems of one machine and size count as one."""
    holds: dict[tuple[str, int], list[str]] = {}
    spaces: dict[tuple[str, int], DiskSpace] = {}
    for process in (each for each in health.processes if each.alive):
        reported = (("data folder", process.data), ("object store", process.objects))
        for what, space in reported:
            if space.total_bytes:
                spaces[process.host, space.total_bytes] = space
                holds.setdefault((process.host, space.total_bytes), []).append(what)
    return [_disk(host, holds[host, total], space) for (host, total), space in spaces.items()]


def _disk(host: str, holds: Sequence[str], space: DiskSpace) -> _Disk:
    used = space.total_bytes - space.free_bytes
    words = ", ".join(dict.fromkeys(holds))
    percent = round(100 * used / space.total_bytes)
    return _Disk(host, words, formatting.size(used), formatting.size(space.free_bytes), percent)
