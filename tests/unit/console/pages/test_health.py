import asyncio

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from console.pages import health as page_of_health
from console.visit import ONLOOKERS, PageEvents
from tests.unit.console.seen import UNSEEN, MemoryServices, answered, html, roles_of
from workflow_api.v1 import deployment_health_pb2 as pb

EVIL = f"<script>alert(1)</script>{UNSEEN}"
PATH = "/deployment/health"
GB = 10**9


def at(seconds: int) -> Timestamp:
    return Timestamp(seconds=1_790_000_000 + seconds)


def shown(**fields: object) -> str:
    health = pb.DeploymentHealth(checked_at=at(0), database="sqlite", object_store="folder")
    health.MergeFrom(pb.DeploymentHealth(**fields))  # type: ignore[arg-type]
    services = MemoryServices({"DeploymentHealthService/GetDeploymentHealth": health})
    return html(answered(services, "GET", PATH))


def process(part: str, host: str = "host-a", **fields: object) -> pb.DeploymentProcess:
    made = pb.DeploymentProcess(part=part, host=host, release="1.0.139", started_at=at(-60), seen_at=at(-3), alive=True)
    made.MergeFrom(pb.DeploymentProcess(**fields))  # type: ignore[arg-type]
    return made


def test_a_deployment_that_is_well_says_so_and_is_followed() -> None:
    page = shown()
    assert "All is well" in page
    assert 'data-stream="/deployment/health/stream"' in page


def test_findings_say_what_to_do_and_where() -> None:
    finding = pb.HealthFinding(topic=pb.HEALTH_TOPIC_QUEUE, critical=True, message=EVIL, remedy="Start a worker.")
    page = shown(findings=[finding])
    for text in ("critical", "alert(1)", "Start a worker.", 'href="/runs?status=queued"'):
        assert text in page
    assert EVIL not in page
    assert "All is well" not in page


def test_processes_show_their_state_and_how_far_their_clock_is_off() -> None:
    behind, exact = Duration(), Duration()
    behind.FromMilliseconds(-3_500)
    exact.FromMilliseconds(12)
    page = shown(
        processes=[process("edge", clock_ahead=behind), process("worker", clock_ahead=exact), pb.DeploymentProcess()]
    )
    for text in ("3.5 s behind", "exact", "gone", "1.0.139"):
        assert text in page


def test_a_disk_that_several_processes_share_is_shown_once() -> None:
    space = pb.DiskSpace(total_bytes=100 * GB, free_bytes=25 * GB)
    page = shown(processes=[process("backend", data=space, objects=space), process("worker", data=space)])
    assert page.count("75.0 GB") == 1
    assert "data folder, object store" in page
    assert "75 of 100 percent" in page


def test_the_age_of_the_queue_and_leases_are_shown() -> None:
    lease = pb.WorkerLease(owner="own_1", host="host-b", lease_until=at(-1), step_slots=8)
    pending = pb.PendingWork(segments_queued=1_234, oldest_queued=Duration(seconds=75))
    page = shown(leases=[lease], pending=pending)
    for text in ("expired", "1 min 15 s", "1,234"):
        assert text in page


def test_waiting_runs_are_shown_by_workflow_and_key_with_the_probable_wait_of_a_start() -> None:
    of_workflow = pb.WaitingRuns(id="wf_1", name=EVIL, waiting=1_240, oldest_since=at(-75))
    of_key = pb.WaitingRuns(
        id="ak_1", name="Billing", waiting=1_200, oldest_since=at(-75), next_wait=Duration(seconds=240)
    )
    of_people = pb.WaitingRuns(waiting=40, oldest_since=at(-9))
    pending = pb.PendingWork(by_workflow=[of_workflow], by_key=[of_key, of_people], start_wait=Duration(seconds=7_000))
    page = shown(pending=pending)
    for text in (
        'href="/workflows/wf_1"', "1,240", 'href="/keys/ak_1"', "Billing", "1,200", "about 4 minutes",
        "none: people and schedules", "unknown", "A run started now will probably wait about 2 hours.",
    ):  # fmt: skip
        assert text in page
    assert EVIL not in page


def test_the_page_is_refreshed_while_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_of_health, "REFRESH_SECONDS", 0)
    answer = answered(MemoryServices({}), "GET", f"{PATH}/stream")
    assert isinstance(answer, PageEvents)
    assert asyncio.run(anext(answer.events)) == ("refresh", "")  # type: ignore[arg-type]


def test_those_who_look_after_the_deployment_see_its_health() -> None:
    assert roles_of("GET", PATH) == roles_of("GET", f"{PATH}/stream") == ONLOOKERS
