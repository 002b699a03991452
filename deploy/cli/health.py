"""`workflow-api health`: the health check of a part, for process supervisors."""

import http.client
import json
from typing import Annotated

import typer

from contract.routes import BASE
from deploy.cli.options import DEFAULT_GRPC, Grpc, Json, listening_address
from deploy.cli.output.printing import print_json
from deploy.client.backend import connected
from deploy.config.addresses import Address, address
from deploy.failures import CommandError

_TIMEOUT_SECONDS = 5.0


def command(
    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", callback=listening_address, help="Check the edge at this address instead."
        ),
    ] = None,
    grpc: Grpc = DEFAULT_GRPC,
    as_json: Json = False,
) -> None:
    """Check the health of a backend or an edge; exits with 1 if it does not serve."""
    part = f"edge at {http}" if http else f"backend at {grpc}"
    if not (_edge_serves(address(http)) if http else _backend_serves(grpc)):
        raise CommandError(f"The {part} does not serve.", code="runtime_unreachable")
    if as_json:
        print_json({"serving": True})
    else:
        print(f"The {part} serves.")


def _backend_serves(where: str) -> bool:
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

    with connected(where) as backend:
        answer = backend.call(backend.health.Check, HealthCheckRequest(), _TIMEOUT_SECONDS)
    return bool(answer.status == HealthCheckResponse.SERVING)


def _edge_serves(where: Address) -> bool:
    """Returns whether an edge answers at the address, even if its API is switched off."""
    connection = http.client.HTTPConnection(where.host, where.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"{BASE}/health")
        answer = connection.getresponse()
        return answer.status == 200 and "status" in json.load(answer)
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
