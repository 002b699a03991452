"""`workflow-api edge`: the HTTP API alone."""

import os
from typing import Annotated

import typer

from deploy.cli.options import GRPC_VARIABLE, Config, HttpListen, Json, LogFormat, LogLevel, backend_address
from deploy.cli.output.printing import print_ready
from deploy.config.source import read_settings
from deploy.serve.lifecycle import prepare_process
from deploy.serve.metrics import serving_metrics
from deploy.serve.process_log import log_serving
from deploy.serve.traces import recording_traces


def command(
    http: HttpListen = None,
    grpc: Annotated[
        str | None,
        typer.Option(
            "--grpc",
            envvar=GRPC_VARIABLE,
            metavar="HOST:PORT|unix:/PATH",
            callback=backend_address,
            help="Where the backend's gRPC services listen; several addresses are separated by commas.",
        ),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Serve only the HTTP API, with a backend in another process. SIGTERM and SIGINT stop it gracefully."""
    given = {"edge.http": http, "edge.backend": grpc, "log_level": log_level, "log_format": log_format}
    settings = read_settings(os.environ, config=config, given=given)
    prepare_process(settings, "edge")

    def announce(base_address: str) -> None:
        record = {"base_address": base_address, "grpc": str(settings.edge.backend)}
        print_ready(base_address, record=record, metrics=metrics.url, as_json=as_json)
        log_serving(base_address=base_address, metrics=metrics.url)

    from deploy.serve.edge import serve_edge

    with serving_metrics(settings, "edge") as metrics, recording_traces(settings, "edge", metrics):
        serve_edge(settings, announce, metrics)
