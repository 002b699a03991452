"""`workflow-api edge`: the HTTP API alone."""

import os
from typing import Annotated

import typer

from deploy.commands.options import GRPC_VARIABLE, Config, HttpListen, Json, grpc_address
from deploy.lifecycle import prepare_process
from deploy.printing import print_json_line
from deploy.settings_source import read_settings


def command(
    http: HttpListen = None,
    grpc: Annotated[
        str | None,
        typer.Option(
            "--grpc",
            envvar=GRPC_VARIABLE,
            metavar="HOST:PORT|unix:/PATH",
            callback=grpc_address,
            help="Where the backend's gRPC services listen.",
        ),
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Serve the HTTP API alone, in front of a backend elsewhere. SIGTERM and SIGINT end it in an orderly way."""
    settings = read_settings(os.environ, config=config, given={"edge.http": http, "edge.backend": grpc})
    prepare_process(settings)

    def announce(base_address: str) -> None:
        if as_json:
            print_json_line({"base_address": base_address, "grpc": str(settings.edge.backend)})
        else:
            print(base_address, flush=True)

    if settings.edge.processes > 1:
        from deploy.edge_processes import serve_processes

        serve_processes(settings, announce)
    else:
        from deploy.edge_part import serve_edge

        serve_edge(settings, announce)
