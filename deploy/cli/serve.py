"""`workflow-api serve`: everything in one process."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.cli.options import Config, Data, GrpcListen, HttpListen, Json, listening_address
from deploy.cli.printing import print_ready
from deploy.config.settings import ClientTls
from deploy.config.source import read_settings
from deploy.failures import CommandFailed
from deploy.serve.lifecycle import default_data, prepare_process

if TYPE_CHECKING:
    from deploy.serve.embedded import Ready


def command(
    demo: Annotated[bool, typer.Option("--demo", help="Load example workflows and print calls to paste.")] = False,
    data: Data = None,
    http: HttpListen = None,
    grpc: GrpcListen = None,
    console: Annotated[
        str | None,
        typer.Option(
            "--console",
            metavar="HOST:PORT",
            callback=listening_address,
            help="Where the web console listens; without it there is none.",
        ),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Serve everything in one process; nothing else to install. SIGTERM and SIGINT end it in an orderly way."""
    given = {"data": data and str(data), "edge.http": http, "backend.grpc": grpc, "console.listen": console}
    settings = read_settings(os.environ, config=config, given=given)
    if settings.edge.processes > 1:
        raise CommandFailed(
            "`workflow-api serve` is one process: set edge.processes to 1, or serve the parts apart with "
            "`workflow-api backend` and `workflow-api edge`.",
            code="invalid_settings",
        )
    prepare_process(settings)
    folder = settings.data or default_data(os.environ, demo=demo)

    from deploy.serve.embedded import serve_embedded

    def on_ready(ready: "Ready") -> None:
        announce(ready, settings.admin.backend_tls if demo else None, as_json=as_json)

    serve_embedded(settings, folder, on_ready)


def announce(ready: "Ready", demo: ClientTls | None, *, as_json: bool) -> None:
    """Prints the deployment's addresses; with `demo`, loads the demonstration first over these TLS settings."""
    record: dict[str, str] = {
        "base_address": ready.base_address,
        "grpc": str(ready.grpc),
        "data": str(ready.data),
    }
    lines = [
        ready.base_address,
        f"gRPC for `workflow-api` commands: {ready.grpc}",
        f"Data: {ready.data}",
    ]
    if ready.console is not None:
        record["console"] = ready.console
        lines.insert(1, f"Console: {ready.console}")
    if demo is not None:
        credentials, script = demonstrate(ready, demo)
        record |= credentials
        lines += ["", "Paste any of this into another shell, from the top:", "", *script]
    print_ready(*lines, record=record, metrics=ready.metrics, as_json=as_json)


def demonstrate(ready: "Ready", tls: ClientTls) -> tuple[dict[str, str], list[str]]:
    """Loads the examples; returns the credentials where this start created them, and the calls to paste."""
    from deploy.demo.examples import examples_folder
    from deploy.demo.paste import Script
    from deploy.demo.setup import prepare_demonstration

    examples, grpc = examples_folder(), str(ready.grpc)
    demonstration = prepare_demonstration(grpc, examples, tls)
    issued = demonstration.credentials
    credentials = {"key": issued.key_value, "external_id": issued.external_id} if issued else {}
    return credentials, Script(ready.base_address, grpc, examples, demonstration).lines()
