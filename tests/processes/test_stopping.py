"""Health and orderly stop of a backend."""

import signal
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from contract.routes import FILES
from contract.versions import LIVENESS
from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.deployment import Deployment
from tests.support.part import Part, address_of
from tests.support.poll import until
from tests.support.ports import answers
from tests.support.postgresql import Postgresql
from tests.support.scrape import LISTEN, fetch
from workflow_api.v1 import outputs_pb2, outputs_pb2_grpc

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ("", *(service.full_name for file in FILES for service in file.services_by_name.values()))
SIZE = 20_000_000


def test_a_backend_is_alive_but_not_ready_while_its_database_is_away(
    deployment: Deployment, postgresql_server: Postgresql
) -> None:
    backend = deployment.backend(variables=LISTEN)
    with grpc.insecure_channel(backend.ready["grpc"]) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def states() -> set[int]:
            requests = (health_pb2.HealthCheckRequest(service=service) for service in SERVICES)
            return {stub.Check(request, timeout=60).status for request in requests}

        def alive() -> int:
            return int(stub.Check(health_pb2.HealthCheckRequest(service=LIVENESS), timeout=60).status)

        def probed(path: str) -> int:
            return fetch(backend.ready["metrics"], path).status

        until(lambda: states() == {SERVING} and probed("/ready") == 200, "the backend to be ready")
        with postgresql_server.away(deployment.database):
            until(lambda: states() == {NOT_SERVING}, "the backend to notice")
            assert alive() == SERVING
            until(lambda: probed("/ready") == 503, "the probe to say so")
            assert probed("/alive") == 200
        until(lambda: states() == {SERVING}, "the backend to be ready again")
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=""), timeout=60)
        assert next(watch).status == SERVING
        backend.signal(signal.SIGTERM)
        assert next(watch).status == NOT_SERVING
        watch.cancel()
    assert backend.ended() == 0


def test_a_backend_finishes_what_is_under_way_and_takes_nothing_new(tmp_path: Path) -> None:
    command = ("backend", "--data", str(tmp_path / "data"), "--grpc", "127.0.0.1:0")
    with Part.started(tmp_path / "backend", *command) as backend:
        admin = Admin(backend.ready["grpc"])
        front = ("edge", "--http", "127.0.0.1:0", "--grpc", backend.ready["grpc"])
        with Part.started(tmp_path / "edge", *front) as edge:
            key = admin.create_key()
            caller = Caller(address_of(edge.ready["base_address"]), key.key_id, key.key, key.external_id)
            until(lambda: caller.get("/me").status == 200, "the key to be known")
            run = caller.finished(admin.apply_test_workflows()["Whale"], parameters={"size": SIZE})
            # The edge watches the keys to the end.
            with grpc.insecure_channel(backend.ready["grpc"]) as channel:
                request = outputs_pb2.GetOutputsZipRequest(run_id=run["run_id"])
                messages = outputs_pb2_grpc.OutputsServiceStub(channel).GetOutputsZip(request, timeout=60)
                length = next(messages).header.length
                backend.signal(signal.SIGTERM)
                port = int(backend.ready["grpc"].rpartition(":")[2])
                until(lambda: not answers(port), "the end of listening")
                assert sum(len(message.data) for message in messages) == length > SIZE
            assert backend.ended() == 0
        admin.close()
    assert "Traceback" not in backend.log()
