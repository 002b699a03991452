"""`workflow-api edge`, `console`, `backend` and `worker`: serve one part of the service as a process."""

import asyncio
import os
from typing import Annotated

import typer

from deploy.cli.options import (
    GRPC_VARIABLE,
    Config,
    Data,
    GrpcListen,
    HttpListen,
    Json,
    LogFormat,
    LogLevel,
    backend_address,
    listening_address,
)
from deploy.cli.output.printing import print_ready
from deploy.config.source import read_settings
from deploy.failures import CommandError
from deploy.serve.lifecycle import default_data, prepare_process, run_until_stopped
from deploy.serve.log_settings import log_serving
from deploy.serve.metrics import serving_metrics
from deploy.serve.traces import recording_traces


def edge_command(
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
        metrics.ready = lambda: True
        log_serving(base_address=base_address, metrics=metrics.url)

    from deploy.serve.edge import serve_edge

    with serving_metrics(settings, "edge") as metrics, recording_traces(settings, "edge", metrics):
        serve_edge(settings, announce, metrics)


def console_command(
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
        metrics.ready = lambda: True
        log_serving(console=address, metrics=metrics.url)

    with serving_metrics(settings, "console") as metrics, recording_traces(settings, "console", metrics):
        serve_console(settings, announce, metrics)


def backend_command(
    data: Data = None,
    grpc: GrpcListen = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Serve only the gRPC services and the runtime. SIGTERM and SIGINT stop it gracefully."""
    given = {"data": data and str(data), "backend.grpc": grpc, "log_level": log_level, "log_format": log_format}
    settings = read_settings(os.environ, config=config, given=given)
    prepare_process(settings, "backend")
    folder = settings.data or default_data(os.environ, demo=False)

    from deploy.serve.backend import running_backend

    async def serve(stop: asyncio.Event) -> None:
        async with running_backend(settings, folder, metrics) as (_, address):
            record = {"grpc": str(address), "data": str(folder)}
            print_ready(str(address), f"Data: {folder}", record=record, metrics=metrics.url, as_json=as_json)
            log_serving(grpc=str(address), metrics=metrics.url)
            await stop.wait()

    with serving_metrics(settings, "backend") as metrics, recording_traces(settings, "backend", metrics):
        run_until_stopped(serve)


def worker_command(
    data: Data = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Execute runs that backends dispatch. SIGTERM and SIGINT stop it after its steps, or after the grace."""
    given = {"data": data and str(data), "log_level": log_level, "log_format": log_format}
    settings = read_settings(os.environ, config=config, given=given)
    if settings.runtime.engine != "dbos":
        raise CommandError(
            "Workers need the engine dbos: set runtime.engine, here and for the backends.", code="cannot_start"
        )
    prepare_process(settings, "worker")
    folder = settings.data or default_data(os.environ, demo=False)

    from deploy.serve.backend import running_worker

    async def work(stop: asyncio.Event) -> None:
        async with running_worker(settings, folder, metrics):
            print_ready(f"Ready. Data: {folder}", record={"data": str(folder)}, metrics=metrics.url, as_json=as_json)
            log_serving(metrics=metrics.url)
            await stop.wait()

    with serving_metrics(settings, "worker") as metrics, recording_traces(settings, "worker", metrics):
        run_until_stopped(work)
