"""`workflow-api console`: the web console alone."""

import os
from typing import Annotated

import typer

from deploy.cli.options import GRPC_VARIABLE, Config, Json, LogFormat, LogLevel, backend_address, listening_address
from deploy.cli.output.printing import print_ready
from deploy.config.source import read_settings
from deploy.serve.lifecycle import prepare_process
from deploy.serve.metrics import serving_metrics
from deploy.serve.process_log import log_serving
from deploy.serve.traces import recording_traces


def command(
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", callback=listening_address, help="Where the console listens."),
    ] = None,
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
    """Serve only the web console, with a backend in another process. SIGTERM and SIGINT stop it gracefully."""
    given = {"console.listen": http, "console.backend": grpc, "log_level": log_level, "log_format": log_format}
    settings = read_settings(os.environ, config=config, given=given)
    prepare_process(settings, "console")

    from deploy.serve.console import serve_console

    def announce(address: str) -> None:
        record = {"console": address, "grpc": str(settings.console.backend)}
        print_ready(address, record=record, metrics=metrics.url, as_json=as_json)
        log_serving(console=address, metrics=metrics.url)

    with serving_metrics(settings, "console") as metrics, recording_traces(settings, "console", metrics):
        serve_console(settings, announce, metrics)
