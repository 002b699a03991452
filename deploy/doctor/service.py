"""Checks of the running service: that its parts answer, their releases, and its own health findings."""

import http.client
import json
from collections.abc import Iterator
from importlib import metadata
from typing import Final

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from contract.routes import BASE
from deploy.config.addresses import LOOPBACK_OF_WILDCARD, Address, Addresses, BackendAddress, GrpcAddress
from deploy.doctor.examination import ExaminedPart, Finding, ServingPart, clock, failed, not_applicable, ok, warning
from deploy.failures import CommandError
from deploy.transport.grpc_channels import calling_channel
from workflow_api.v1 import deployment_health_pb2 as pb
from workflow_api.v1.deployment_health_pb2_grpc import DeploymentHealthServiceStub

_SECONDS: Final = 5.0
_OPTIONS: Final = (("grpc.enable_http_proxy", 0),)
_UNREACHED: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
_REFUSED: Final = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_ANY_PORT: Final = 0


def check_backends(examined: ExaminedPart) -> Iterator[Finding]:
    """Calls the backends of an edge or a console, with its certificate."""
    settings = examined.settings
    if examined.part not in {ServingPart.EDGE, ServingPart.CONSOLE}:
        return
    caller = settings.edge if examined.part is ServingPart.EDGE else settings.console
    name = f"{examined.part}.backend"
    for address in _servers(caller.backend):
        try:
            with calling_channel(address, caller.backend_tls, _OPTIONS) as channel:
                answer = HealthStub(channel).Check(HealthCheckRequest(), timeout=_SECONDS)
        except CommandError as error:
            yield failed("backend", error.message, f"Look at {name}_tls of the settings.")
        except grpc.RpcError as error:
            yield _refused(address, error, name)
        else:
            if answer.status == HealthCheckResponse.SERVING:
                yield ok("backend", f"The backend at {address} serves.")
            else:
                yield failed("backend", f"The backend at {address} does not serve.", "Look at its database and log.")


def check_service(examined: ExaminedPart) -> Iterator[Finding]:
    """Asks a running backend, as an administrator, for its health findings and the releases of all parts."""
    settings = examined.settings
    address = _administered_backend(examined)
    if address is None:
        yield not_applicable(
            "service", "Its findings are those of a backend: run this there, or name one by WORKFLOW_API_GRPC."
        )
        return
    try:
        with calling_channel(address, settings.admin.backend_tls, _OPTIONS) as channel:
            stub = DeploymentHealthServiceStub(channel)
            health = stub.GetDeploymentHealth(pb.GetDeploymentHealthRequest(), timeout=_SECONDS)
    except CommandError as error:
        yield not_applicable("service", f"{error.message} Findings of the service are left out.")
        return
    except grpc.RpcError as error:
        if error.code() in _REFUSED and settings.admin.backend_tls.given:
            yield warning(
                "service",
                f"The backend at {address} does not accept admin.backend_tls as an administrator's.",
                "Grant its name administration below [identities] of the backend.",
            )
            return
        why = "does not answer" if error.code() in _UNREACHED else f"answers {error.code().name} to an administrator"
        other = " Name another address by --grpc or WORKFLOW_API_GRPC." if error.code() in _UNREACHED else ""
        yield not_applicable("service", f"The backend at {address} {why}: its own findings are left out.{other}")
        return
    yield from _health_findings(health)


def check_edge(examined: ExaminedPart) -> Iterator[Finding]:
    """Calls the health route of an edge on this machine."""
    where = examined.settings.edge.http
    if examined.part not in {ServingPart.SERVE, ServingPart.EDGE}:
        return
    host = LOOPBACK_OF_WILDCARD.get(where.host, where.host)
    connection = http.client.HTTPConnection(host, where.port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{BASE}/health")
        answer = connection.getresponse()
        status = json.load(answer)["status"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        yield not_applicable("edge", f"No edge answers at {where}; --http names another address.")
        return
    finally:
        connection.close()
    if answer.status == http.HTTPStatus.OK:
        yield ok("edge", f"The edge at {where} answers that it is {status}.")
    else:
        yield failed("edge", f"What answers at {where} is no edge.", "Look at edge.http and at what listens there.")


def _health_findings(health: pb.DeploymentHealth) -> Iterator[Finding]:
    yield clock("the backend", health.checked_at.seconds + health.checked_at.nanos / 1e9)
    release = metadata.version("workflow-api")
    alive = [process for process in health.processes if process.alive]
    other = sorted(
        f"{process.part} on {process.host} (process {process.pid})" for process in alive if process.release != release
    )
    parts = sorted({f"{process.part} {process.release}" for process in alive})
    if other:
        yield warning(
            "releases", f"{', '.join(other)} have another release than {release}.", "Finish the upgrade of all parts."
        )
    else:
        yield ok("releases", f"All parts that report have release {release}: {', '.join(parts) or 'none yet'}.")
    for finding in health.findings:
        judge = failed if finding.critical else warning
        yield judge("service", finding.message, finding.remedy)
    if not health.findings:
        yield ok("service", f"The backend finds nothing to look at; it works on {health.database}.")


def _refused(address: GrpcAddress, error: grpc.RpcError, name: str) -> Finding:
    if error.code() in _UNREACHED:
        said = str(error.details() or "").rstrip(".")
        return failed(
            "backend",
            f"The backend at {address} cannot be reached: {said}.",
            f"Start it, or look at {name}, {name}_tls.ca, {name}_tls.server_name and the backend's own certificate.",
        )
    # The other side accepts the certificate, whose grants lack this RPC.
    return ok("backend", f"The backend at {address} answers.")


def _servers(address: BackendAddress) -> tuple[GrpcAddress, ...]:
    return address.servers if isinstance(address, Addresses) else (address,)


def _administered_backend(examined: ExaminedPart) -> GrpcAddress | None:
    """Returns the address of the backend to ask for its findings; None if it is another machine's."""
    settings = examined.settings
    if examined.named_backend is not None:
        return _servers(examined.named_backend)[0]
    if examined.part in {ServingPart.SERVE, ServingPart.BACKEND}:
        address = settings.backend.grpc
        if isinstance(address, Address):
            address = Address(LOOPBACK_OF_WILDCARD.get(address.host, address.host), address.port)
            return None if address.port == _ANY_PORT else address
        return address
    caller = {ServingPart.EDGE: settings.edge.backend, ServingPart.CONSOLE: settings.console.backend}.get(examined.part)
    return None if caller is None else _servers(caller)[0]
