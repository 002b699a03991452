"""DeploymentHealthService: processes as they report, waiting work, retention and secrets."""

from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration

from backend.common.secrets import Secrets
from backend.runtime.scheduling import sql
from backend.services.dependencies import Services
from backend.services.health.reporter import Disk, ProcessReporter, Space
from backend.services.health.rules import has_little_space
from backend.services.health.servicer import secret_use
from backend.services.health.sql import SecretRow
from backend.services.live_edges import LiveEdges
from backend.settings import ModelProvider, NotificationTarget
from contract.times import to_timestamp
from contract.versions import RELEASE
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from workflow_api.v1 import deployment_health_pb2, deployment_pb2, runs_pb2, workflows_pb2
from workflow_api.v1.edge_pb2 import EdgeProcess, HandshakeRequest
from workflow_api_testing import TestBackend

MINUTE = 60_000


@pytest.fixture
def caller(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def health(caller: Caller) -> deployment_health_pb2.DeploymentHealth:
    answer: deployment_health_pb2.DeploymentHealth = caller(
        "GetDeploymentHealth", deployment_health_pb2.GetDeploymentHealthRequest()
    )
    return answer


def reporter(services: Services, folder: Path, part: str, edges: LiveEdges | None = None) -> ProcessReporter:
    return ProcessReporter(services, part, folder, folder, shares_clock=False, edges=edges)


def parts(caller: Caller) -> list[tuple[str, bool]]:
    return sorted((each.part, each.alive) for each in health(caller).processes if each.host != "elsewhere")


def test_a_process_reports_itself_and_the_edges_that_watch_it(
    caller: Caller, services: Services, clock: TestClock, tmp_path: Path
) -> None:
    edges = LiveEdges(services.clock)
    ahead = EdgeProcess(process_id="edge_1", host="front", pid=7, release="1.0.140")
    ahead.started_at.CopyFrom(to_timestamp(clock() - MINUTE))
    ahead.sent_at.CopyFrom(to_timestamp(clock() + 5_000))
    with edges.watching(ahead), edges.watching(EdgeProcess()):
        reporter(services, tmp_path, "worker", edges).report()
    found = {each.part: each for each in health(caller).processes}
    worker, edge = found["worker"], found["edge"]
    assert (worker.release, worker.alive, worker.data.total_bytes > worker.data.free_bytes > 0) == (RELEASE, True, True)
    assert (edge.process_id, edge.host, edge.pid, edge.clock_ahead.seconds) == ("edge_1", "front", 7, 5)
    told = [finding.message for finding in health(caller).findings]
    assert f"Processes run different releases: {RELEASE}, 1.0.140." in told
    assert "The clock of front is 5.0 seconds ahead." in told


def test_one_that_reports_no_more_is_shown_as_gone_and_forgotten_after_a_day(
    caller: Caller, services: Services, clock: TestClock, tmp_path: Path
) -> None:
    reporter(services, tmp_path, "worker").report()
    clock.now += 2 * MINUTE
    assert ("worker", False) in parts(caller)
    messages = [finding.message for finding in health(caller).findings]
    assert any(each.startswith("Worker on ") and each.endswith("has not reported for a minute.") for each in messages)
    clock.now += 25 * 60 * MINUTE
    reporter(services, tmp_path, "backend").report()
    assert "worker" not in [part for part, _ in parts(caller)]


def test_one_that_reported_by_a_clock_ahead_is_shown_as_gone_and_forgotten(
    caller: Caller, services: Services, clock: TestClock, tmp_path: Path
) -> None:
    clock.now += 120 * MINUTE
    reporter(services, tmp_path, "worker").report()
    clock.now -= 120 * MINUTE
    assert ("worker", False) in parts(caller)
    reporter(services, tmp_path, "backend").report()
    assert parts(caller) == [("backend", True)]


def test_a_lease_has_run_out_by_the_clock_that_workers_renew_it_by(
    caller: Caller, services: Services, clock: TestClock
) -> None:
    now = services.database.now()
    clock.now = now + 2 * MINUTE
    services.database.write(
        lambda tx: sql.add_lease(tx, owner="own_1", host="far", step_slots=4, now=now, until=now + MINUTE)
    )
    assert not [each.message for each in health(caller).findings if "lease" in each.message]
    services.database.write(
        lambda tx: sql.renew_lease(tx, "own_1", services.database.now() - 1, draining=False, room=4)
    )
    assert "The lease of a process on far (own_1) has run out." in [each.message for each in health(caller).findings]


def test_one_that_stops_in_order_is_no_longer_shown(caller: Caller, services: Services, tmp_path: Path) -> None:
    stopping = reporter(services, tmp_path, "worker")
    stopping.start()
    stopping.report()
    assert ("worker", True) in parts(caller)
    stopping.stop()
    assert "worker" not in [part for part, _ in parts(caller)]


def test_the_size_of_the_database_and_its_kind_are_told(caller: Caller, database_url: str | None) -> None:
    found = health(caller)
    assert found.database == ("sqlite" if database_url is None else "postgresql")
    assert found.database_bytes > 10_000
    assert found.object_store == "folder"
    assert found.pending == deployment_health_pb2.PendingWork(start_wait=Duration())


def test_every_kind_of_data_has_its_time_and_runs_that_of_the_record(caller: Caller) -> None:
    def retention() -> deployment_health_pb2.Retention:
        answer: deployment_health_pb2.Retention = caller("GetRetention", deployment_health_pb2.GetRetentionRequest())
        return answer

    caller("UpdateDeployment", deployment_pb2.UpdateDeploymentRequest(retention=Duration(seconds=7 * 86_400)))
    kept = {each.name: (each.kept.seconds, each.by_record) for each in retention().schedules}
    assert kept["runs_erased"] == (7 * 86_400, True)
    assert kept["audit_records"] == (400 * 86_400, False)
    assert set(kept) | {"more"} == set(runs_pb2.RunUpkeepResponse.DESCRIPTOR.fields_by_name)
    assert not retention().HasField("next_run_at")


def test_secrets_are_told_by_name_with_what_names_them_and_never_with_a_value() -> None:
    secrets = Secrets({"inbox-key": "env:KEY", "openai": "env:NOTHING", "left": "file:/nowhere"}, {"KEY": "the-value"})
    rows = [
        SecretRow("con_1", "connector", "inbox", secret="inbox-key", api_key=None, secrets=None),
        SecretRow("agt_1", "agent", "writer", secret=None, api_key="openai", secrets='["inbox-key", "token"]'),
    ]
    targets = {"operators": NotificationTarget(kind="slack", url="left", events=["run.failed"])}
    found = secret_use(secrets, rows, {"openai": ModelProvider(api_key="openai")}, targets)
    told = {each.name: (each.state, each.kept_in, [user.name for user in each.used_by]) for each in found.secrets}
    assert told == {
        "inbox-key": (deployment_health_pb2.SECRET_STATE_SET, "environment", ["inbox", "writer"]),
        "left": (deployment_health_pb2.SECRET_STATE_UNREADABLE, "file", ["operators"]),
        "openai": (deployment_health_pb2.SECRET_STATE_UNREADABLE, "environment", ["writer", "openai"]),
        "token": (deployment_health_pb2.SECRET_STATE_MISSING, "", ["writer"]),
    }
    for hidden in ("the-value", "KEY", "NOTHING", "/nowhere"):
        assert hidden not in str(found)


def test_what_resources_name_is_read_from_their_newest_version(caller: Caller) -> None:
    manifests = (
        "kind: Connector\nname: inbox\ntype: s3\nbucket: docs\nsecret: inbox-key\n---\n"
        "kind: Agent\nname: greeter\ntype: python\nsecrets: [token]\ncode: |\n  def run(context):\n      return 1\n"
    )
    file = workflows_pb2.ManifestFile(name="m.yaml", content=manifests)
    caller("ApplyManifests", workflows_pb2.ApplyManifestsRequest(files=[file]))
    found = caller("GetSecretUse", deployment_health_pb2.GetSecretUseRequest())
    told = [(each.name, each.state, [user.kind for user in each.used_by]) for each in found.secrets]
    missing = deployment_health_pb2.SECRET_STATE_MISSING
    assert told == [("inbox-key", missing, ["connector"]), ("token", missing, ["agent"])]


def test_a_certificate_that_ends_soon_and_a_backend_that_cannot_be_called_are_findings(
    caller: Caller, services: Services, clock: TestClock, tmp_path: Path
) -> None:
    edges = LiveEdges(services.clock)
    edge = EdgeProcess(process_id="edge_2", host="front", pid=8, release=RELEASE)
    for left, critical, words in (
        (13 * 24 * 60, False, "expires in 312 hours"),
        (23 * 60, True, "expires in 23 hours"),
        (60, True, "expires in 1 hour."),
        (30, True, "expires in 30 minutes."),
        (-1, True, "has expired"),
        (15 * 24 * 60, None, ""),
    ):
        with edges.watching(edge):
            edges.record_handshake(
                HandshakeRequest(
                    process=edge,
                    certificate_expires_at=to_timestamp(clock() + left * MINUTE),
                    unusable_backends=["10.0.0.2:9090: certificate has expired"],
                )
            )
            reporter(services, tmp_path, "backend", edges).report()
        answer = health(caller)
        found = {each.message: each.critical for each in answer.findings if "certificate" in each.message}
        other = "The edge on front (process 8) cannot call a backend: 10.0.0.2:9090: certificate has expired."
        assert found.pop(other) is False
        assert list(found.values()) == ([] if critical is None else [critical])
        assert all(words in message for message in found)
        [shown] = [each for each in answer.processes if each.process_id == "edge_2"]
        assert shown.certificate_expires_at == to_timestamp(clock() + left * MINUTE)
        assert list(shown.unusable_backends) == ["10.0.0.2:9090: certificate has expired"]


@pytest.mark.parametrize(
    ("total", "free", "filling", "judged"),
    [
        (1_000, 600, 500, None),
        (1_000, 200, 10, False),
        (1_000, 200, 60, True),
        (1_000, 200, 1, None),
        (100, 5, 0, False),
        (100, 2, 0, True),
    ],
)
def test_a_disk_that_is_full_within_a_day_is_a_finding_and_within_four_hours_a_critical_one(
    total: int, free: int, filling: int, judged: bool | None
) -> None:
    gigabyte = 10**9
    assert has_little_space(total * gigabyte, free * gigabyte, filling * gigabyte) is judged


def test_the_rate_at_which_a_disk_fills_is_that_of_the_last_hour(tmp_path: Path) -> None:
    times = iter((0.0, 60.0, 1200.0))
    disk = Disk(tmp_path, lambda: next(times))
    assert [disk.sample().filling is None for _ in range(3)] == [True, True, False]
    assert (disk.space().filling or 0) >= 0
    assert Disk(None).sample() == Space()
