"""Rules that derive findings, problems for a person to look at, from the figures of a deployment; no I/O."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from backend.common.certificate_expiry import SOON, VERY_SOON, time_left
from backend.common.clock import is_recent
from backend.services.health.sql import ProcessRow, WorkerRow
from backend.services.notifications.rules import NotificationEvent
from backend.services.runs.backlog_sql import MAX_COUNTED, BacklogRow
from contract.times import approximate
from workflow_api.v1 import deployment_health_pb2 as pb

GONE_MS: Final = 60_000
"""Silence after which a process counts as ended, or unable to reach the database."""

_OLD_QUEUE_MS: Final = 60_000
_VERY_OLD_QUEUE_MS: Final = 600_000
_FAR_CLOCK_MS: Final = 2_000
_MANY_SWEEPS: Final = 100
_SLOW_DATABASE_MS: Final = 1_000
_LITTLE: Final = 0.1
_VERY_LITTLE: Final = 0.03
_GIGABYTE: Final = 10**9
_HALF: Final = 0.5
_SOON_HOURS: Final = 24
_VERY_SOON_HOURS: Final = 4


@dataclass(frozen=True, slots=True)
class HealthFigures:
    """Figures from which findings are derived; times in milliseconds, `lease_now` by the clock of leases."""

    now: int
    lease_now: int
    processes: Sequence[ProcessRow]
    workers: Sequence[WorkerRow]
    backlog: BacklogRow
    database_ms: int
    needs_workers: bool
    start_wait: int | None


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """A problem that a person should look at."""

    topic: pb.HealthTopic.ValueType
    critical: bool
    message: str
    remedy: str
    subject: str = ""
    """The certificate or disk that it is about, for findings that operators are notified of."""
    event: NotificationEvent | None = None
    """The event of its notification, for findings that operators are notified of."""


def findings(figures: HealthFigures) -> list[HealthFinding]:
    """Returns the problems that a person should look at, critical ones first."""
    groups = (_queue, _processes, _backends)
    found = [finding for group in groups for finding in group(figures)]
    found += [*of_certificates(figures.processes, figures.now), *of_disks(figures.processes, figures.now)]
    found += [*_clocks(figures), *_others(figures)]
    return sorted(found, key=lambda finding: not finding.critical)


def _queue(figures: HealthFigures) -> Iterator[HealthFinding]:
    backlog = figures.backlog
    queued = backlog.segments_waiting + backlog.segments_handed_over
    waited = 0 if backlog.oldest_queued_at is None else figures.now - backlog.oldest_queued_at
    if figures.needs_workers and not backlog.workers:
        message = "No worker holds a lease: no run goes on."
        yield HealthFinding(
            pb.HEALTH_TOPIC_QUEUE, True, message, "Start a worker, and look at the logs of those that ended."
        )
    elif waited > _OLD_QUEUE_MS:
        message = f"The oldest of {_count_text(queued)} queued parts of runs has waited for {waited // 1000:,} seconds"
        if figures.start_wait:
            message += f"; a run started now will probably wait {approximate(figures.start_wait)}"
        yield HealthFinding(
            pb.HEALTH_TOPIC_QUEUE,
            waited > _VERY_OLD_QUEUE_MS,
            f"{message}.",
            "Start more workers or give them more step slots; if slots are free, look at the logs of backends.",
        )
    ended = [worker for worker in figures.workers if worker.lease_until <= figures.lease_now]
    if ended:
        hosts = _named(f"{worker.host} ({worker.owner})" for worker in ended)
        remedy = "Its runs end as orphaned by themselves; look at its log for why it ended."
        yield HealthFinding(pb.HEALTH_TOPIC_QUEUE, False, f"The lease of a process on {hosts} has run out.", remedy)


def _processes(figures: HealthFigures) -> Iterator[HealthFinding]:
    gone = [process for process in figures.processes if not is_alive(process, figures.now)]
    if gone:
        named = _named(f"{process.part} on {process.host} (process {process.pid})" for process in gone)
        have = "has" if len(gone) == 1 else "have"
        message = f"{named[:1].upper()}{named[1:]} {have} not reported for a minute."
        remedy = (
            "It has ended, or reaches no database or backend: look at its log. "
            "It leaves the list by itself: an edge after ten minutes, others after a day."
        )
        yield HealthFinding(pb.HEALTH_TOPIC_PROCESSES, False, message, remedy)
    releases = {process.release for process in figures.processes if is_alive(process, figures.now)}
    if len(releases) > 1:
        message = f"Processes run different releases: {', '.join(sorted(releases))}."
        yield HealthFinding(pb.HEALTH_TOPIC_PROCESSES, False, message, "Finish the upgrade of all processes.")


def _backends(figures: HealthFigures) -> Iterator[HealthFinding]:
    for process in figures.processes:
        if process.unusable_backends and is_alive(process, figures.now):
            for reason in json.loads(process.unusable_backends):
                yield HealthFinding(
                    pb.HEALTH_TOPIC_PROCESSES,
                    False,
                    f"The {process.part} on {process.host} (process {process.pid}) cannot call a backend: {reason}.",
                    "Look at that backend, the certificates of both, and their releases; other backends are called.",
                )


def of_certificates(processes: Iterable[ProcessRow], now: int) -> Iterator[HealthFinding]:
    """Yields certificates of processes that expire soon."""
    for process in processes:
        if process.certificate_expires_at is None or not is_alive(process, now):
            continue
        left = timedelta(milliseconds=process.certificate_expires_at - now)
        if left < SOON:
            when = f"expires in {time_left(left)}" if left > timedelta() else "has expired: new connections fail"
            yield HealthFinding(
                pb.HEALTH_TOPIC_CERTIFICATES,
                left < VERY_SOON,
                f"The certificate of the {process.part} on {process.host} (process {process.pid}) {when}.",
                "Replace its files, or that of an authority in them; they are read again without a restart.",
                f"certificate {process.part} {process.host}",
                NotificationEvent.CERTIFICATE_EXPIRING,
            )


def of_disks(processes: Iterable[ProcessRow], now: int) -> Iterator[HealthFinding]:
    """Yields disks of processes with little free space."""
    for process in processes:
        if not is_alive(process, now):
            continue
        for what, total, free, filling in (
            ("data folder", process.data_total, process.data_free, process.data_filling),
            ("object store", process.objects_total, process.objects_free, process.objects_filling),
        ):
            very = None if not total or free is None else has_little_space(total, free, filling or 0)
            if free is not None and very is not None:
                rate = f" and fills by {filling / _GIGABYTE:,.1f} GB an hour" if filling else ""
                yield HealthFinding(
                    pb.HEALTH_TOPIC_DISK,
                    very,
                    f"The disk of the {what} on {process.host} has {free / _GIGABYTE:,.1f} GB free{rate}.",
                    "Make room or a larger disk, or keep run data for fewer days.",
                    f"disk {what} {process.host}",
                    NotificationEvent.DISK_LOW,
                )


def has_little_space(total: int, free: int, filling: int = 0) -> bool | None:
    """Returns True for very little free space on a disk, False for little, None for enough.

    Sizes are in bytes, `filling` in bytes an hour: a disk that is full within a day has little space, within four hours
    very little, unless more than half of it is free.
    """
    if free < total * _LITTLE and free < 10 * _GIGABYTE:
        return free < total * _VERY_LITTLE or free < max(_GIGABYTE, _VERY_SOON_HOURS * filling)
    if free < total * _HALF and free < _SOON_HOURS * filling:
        return free < _VERY_SOON_HOURS * filling
    return None


def _clocks(figures: HealthFigures) -> Iterator[HealthFinding]:
    far: Mapping[str, int] = {
        process.host: process.clock_ahead
        for process in figures.processes
        if process.clock_ahead is not None
        and abs(process.clock_ahead) > _FAR_CLOCK_MS
        and is_alive(process, figures.now)
    }
    for host, ahead in far.items():
        way = "ahead" if ahead > 0 else "behind"
        message = f"The clock of {host} is {abs(ahead) / 1000:,.1f} seconds {way}."
        yield HealthFinding(
            pb.HEALTH_TOPIC_CLOCK, False, message, "Synchronise its clock, as with chrony or systemd-timesyncd."
        )


def _others(figures: HealthFigures) -> Iterator[HealthFinding]:
    if figures.backlog.sweeps > _MANY_SWEEPS:
        message = (
            f"Outputs of {_count_text(figures.backlog.sweeps)} finished runs are still to be swept for personal data."
        )
        remedy = "Their outputs stay closed until then: look at the logs for sweeps that fail, or start more workers."
        yield HealthFinding(pb.HEALTH_TOPIC_REDACTION, False, message, remedy)
    if figures.database_ms > _SLOW_DATABASE_MS:
        message = f"The database took {figures.database_ms / 1000:,.1f} seconds to answer."
        yield HealthFinding(pb.HEALTH_TOPIC_DATABASE, False, message, "Look at its load and its disk.")


def is_alive(process: ProcessRow, now: int) -> bool:
    """Returns whether a process has reported within the last minute."""
    return is_recent(process.seen_at, now, GONE_MS + 1)


def _count_text(count: int) -> str:
    return f"{count:,} or more" if count >= MAX_COUNTED else f"{count:,}"


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
