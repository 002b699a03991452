"""`workflow-api backend`: the gRPC services and the runtime alone."""

import asyncio
import os

from deploy.cli.options import Config, Data, GrpcListen, Json, LogFormat, LogLevel
from deploy.cli.output.printing import print_ready
from deploy.config.source import read_settings
from deploy.serve.lifecycle import default_data, prepare_process, run_until_stopped
from deploy.serve.metrics import serving_metrics
from deploy.serve.process_log import log_serving
from deploy.serve.traces import recording_traces


def command(
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
